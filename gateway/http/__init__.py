"""HTTP: request bodies, responses and streams, API keys, CORS, stalled clients.

Knows no dialect, no worker and no route. May be imported by routes and the application.
"""
