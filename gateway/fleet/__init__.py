"""The workers as the gateway sees them: names, state, queues, and the gRPC clients.

Knows neither HTTP nor dialects. May be imported by generation, responses, routes and
the application.
"""
