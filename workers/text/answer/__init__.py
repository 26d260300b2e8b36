"""The shape of one answer: reasoning, tool calls, stop strings, grammars and token budgets.

Imports tool calls and the model's vocabulary, never the engine. May be imported by the worker's own
modules, and its pure parts by the command `parse`.
"""
