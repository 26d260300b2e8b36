"""The HTTP server: protocols and policies, no models and no tokenizers.

Runs on one event loop. The modules beside the rooms put the application together: routes, shared
context, metrics, the server's start and stop. Nothing imports app and server.
"""
