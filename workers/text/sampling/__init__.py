"""From logits to one token id: filters, penalties, log-probabilities, repetition, defaults.

Imports no other room of the text worker. May be imported by the engine and the worker's own
modules.
"""
