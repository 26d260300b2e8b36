"""Tool-call formats, one module each: a parser and a `FORMAT`.

Imports the machinery and its readers. May be imported by the table of formats and the answer room.
"""
