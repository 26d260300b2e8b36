"""What gateway and workers have in common: the wire vocabulary, settings, errors, process life.

Imports nothing of ours but itself.
"""
