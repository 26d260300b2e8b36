"""HTTP itself: bodies in, answers and streams out, keys, CORS, clients that stall.

Knows no dialect, no worker and no route. May be imported by routes and the application.
"""
