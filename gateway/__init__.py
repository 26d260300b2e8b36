"""The HTTP side: knows protocols and policies, knows nothing of models or tokenizers.

One event loop. What a route says and reads is dialects/, the line from request to answer routes/,
what outlives a request state/; the modules beside them are how workers are found, waited for and
replaced.
"""
