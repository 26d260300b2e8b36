"""One text request from admission to its last event, over as many worker processes as it takes.

Knows neither HTTP nor dialects. May be imported by responses, routes and the application; dialects
read the folded completion and nothing else.
"""
