"""The workers as the gateway sees them: who they are, how they do, and the way to each of them.

Knows neither HTTP nor dialects. May be imported by generation, responses,
routes and the application.
"""
