"""Calls out of complete JSON: one object, or a list of them.

The arguments stay the text that stands in it; those written as a string are its characters. Pure;
never raises.
"""

from __future__ import annotations

from workers.text.toolcalls.format import ParsedCall
from workers.text.toolcalls.reader.json_scanner import decode
from workers.text.toolcalls.reader.literal import read_literal, split_array, split_object


def calls_of(text: str, name_key: str, arguments_key: str) -> list[ParsedCall] | None:
    """Return the calls of a JSON text, or of a literal close to it; None if any is none."""
    literal = read_literal(text)
    if literal is None:
        return None
    try:
        items = split_array(literal.text) if literal.kind == "array" else [literal.text]
        calls = [_call_of(item, name_key, arguments_key) for item in items]
    except RecursionError:  # as deep as could just be read from a frame further out
        return None
    found = [call for call in calls if call is not None]
    return found if len(found) == len(calls) else None


def _call_of(text: str, name_key: str, arguments_key: str) -> ParsedCall | None:
    if not text.startswith("{"):
        return None
    members = split_object(text)
    name = members.get(name_key, "")
    arguments = _arguments_of(members.get(arguments_key, "null"))
    if not name.startswith('"') or name == '""' or arguments is None:
        return None
    return ParsedCall(decode(name[1:-1]), arguments)


def _arguments_of(text: str) -> str | None:
    if text.startswith('"'):
        return decode(text[1:-1])
    if text == "null":
        return "{}"
    return text if text.startswith("{") else None
