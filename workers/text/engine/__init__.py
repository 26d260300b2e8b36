"""The engine: one thread that owns the model, its batch and the order of its steps.

Imports the model, caches and sampling; no answer and no prompt. May be imported by the worker's own
modules.
"""
