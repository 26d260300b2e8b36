"""Strict JSON as text: encoded, joined and split with its spelling kept.

Loose values are literal.py's. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

SPACE = re.compile(r"[ \t\r\n]*")
_KINDS = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


# Numbers are not computed: only their type matters, and they may be of any length.
_DECODER = json.JSONDecoder(
    parse_int=lambda _: 0, parse_float=lambda _: 0.0, parse_constant=_refuse
)


def to_json(value: Any) -> str:
    """Return a value as JSON text that can always be encoded as UTF-8."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, from an escape
        return json.dumps(value)
    return text


def decode_json(text: str) -> Any:
    """Return the parsed value of strict JSON, every number as 0.

    Raises:
        ValueError: it is not JSON.
        RecursionError: it is nested too deeply.
    """
    return _DECODER.decode(text)


def kind_of(value: Any) -> str:
    """Return the JSON Schema type of a parsed value."""
    return _KINDS.get(type(value), "object")


def render_object(members: Mapping[str, str]) -> str:
    """Return the JSON object of members, whose values are JSON text."""
    return "{" + ", ".join(f"{to_json(name)}: {value}" for name, value in members.items()) + "}"


def render_array(elements: Iterable[str]) -> str:
    """Return the JSON array of elements, which are JSON text."""
    return "[" + ", ".join(elements) + "]"


def split_object(text: str) -> dict[str, str]:
    """Return the texts of a strict JSON object's members; the last of equal keys counts."""
    members: dict[str, str] = {}
    offset = _skip(text, 1)
    while text[offset] != "}":
        key, offset = _DECODER.raw_decode(text, offset)
        start = _skip(text, _skip(text, offset) + 1)
        _, offset = _DECODER.raw_decode(text, start)
        members[key] = text[start:offset]
        offset = _skip_comma(text, offset)
    return members


def split_array(text: str) -> list[str]:
    """Return the texts of a strict JSON array's elements."""
    elements: list[str] = []
    offset = _skip(text, 1)
    while text[offset] != "]":
        start = offset
        _, offset = _DECODER.raw_decode(text, start)
        elements.append(text[start:offset])
        offset = _skip_comma(text, offset)
    return elements


def _skip(text: str, offset: int) -> int:
    match = SPACE.match(text, offset)
    return match.end() if match else offset


def _skip_comma(text: str, offset: int) -> int:
    offset = _skip(text, offset)
    return _skip(text, offset + 1) if text[offset] == "," else offset
