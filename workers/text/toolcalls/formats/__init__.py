"""Tool-call formats, one module each: two constants and a parser.

Imports the machinery and its readers. May be imported by the table of formats and the answer room.
"""
