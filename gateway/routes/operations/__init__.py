"""What an operator or a monitor reads of a server that runs: health, models, load, caches.

No handler here calls for inference. May import `routes/route.py`; imported by the application and
the catalog of routes.
"""
