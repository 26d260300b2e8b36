"""Strict JSON as text: encoded, and joined with its spelling kept.

Loose values are literal.py's. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

# Stands inside a text that only spells a marker, before its last character. Half a surrogate pair,
# so that no decoded text holds it; it is dropped wherever text is given out.
GUARD = "\udfff"

SPACE = re.compile(r"[ \t\r\n]*")
_SURROGATE = re.compile("[\ud800-\udfff]")
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
    except UnicodeEncodeError:  # a guard, or half a surrogate pair from an escape
        plain = text.replace(GUARD, "")
        return plain if plain.isascii() else _escape_surrogates(plain)
    return text


def _escape_surrogates(text: str) -> str:
    return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


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
