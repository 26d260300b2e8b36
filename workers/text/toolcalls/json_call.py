"""Parses complete JSON into calls: one object, or a list of them.

The arguments keep their text; arguments written as a string are decoded. Pure; never raises.
"""

from __future__ import annotations

from workers.text.toolcalls.format import ParsedCall
from workers.text.toolcalls.reader.json_scanner import decode
from workers.text.toolcalls.reader.json_text import split_array, split_object
from workers.text.toolcalls.reader.literal import read_literal


def parse_calls(text: str, name_key: str, arguments_key: str) -> list[ParsedCall] | None:
    """Return the calls of JSON or a loose literal; None unless every item is a call."""
    literal = read_literal(text)
    if literal is None:
        return None
    try:
        items = split_array(literal.text) if literal.kind == "array" else [literal.text]
        calls = [_parse_call(item, name_key, arguments_key) for item in items]
    except RecursionError:  # so deep that it could be read only from a shallower frame
        return None
    found = [call for call in calls if call is not None]
    return found if len(found) == len(calls) else None


def _parse_call(text: str, name_key: str, arguments_key: str) -> ParsedCall | None:
    if not text.startswith("{"):
        return None
    members = split_object(text)
    name = members.get(name_key, "")
    arguments = _parse_arguments(members.get(arguments_key, "null"))
    if not name.startswith('"') or name == '""' or arguments is None:
        return None
    return ParsedCall(decode(name[1:-1]), arguments)


def _parse_arguments(text: str) -> str | None:
    if text.startswith('"'):
        return decode(text[1:-1])
    if text == "null":
        return "{}"
    return text if text.startswith("{") else None
