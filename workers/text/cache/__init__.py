"""What computed keys and values are kept in: rows that decode, prefixes in memory and on disk.

Imports no other room of the text worker. May be imported by the engine and the worker's own
modules.
"""
