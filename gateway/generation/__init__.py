"""One text request from admission to its last event, resumed after the loss of a worker.

Knows neither HTTP nor dialects. May be imported by responses, routes and the application; dialects
read the folded completion and nothing else.
"""
