"""Converts the text of a parameter to its JSON value, by the schema of the tool.

For formats whose arguments are not JSON: a parameter declared as a string is its raw text; any
other is read as JSON or a loose literal, and is a string if it is neither. Pure; never raises,
whatever the schema holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from workers.text.toolcalls.reader.json_text import render_object, to_json
from workers.text.toolcalls.reader.literal import Literal, read_literal
from workers.text.toolcalls.schema import Schema


def is_text(parameters: Mapping[str, Any], name: str) -> bool:
    """Return whether a parameter's value is always its raw text.

    Args:
        parameters: schema of the function's parameters; empty for an undeclared function.
    """
    return Schema(parameters, parameters).member(name).is_text


def convert(text: str, parameters: Mapping[str, Any], name: str) -> str:
    """Return the JSON text of a parameter's value.

    Args:
        text: as the model wrote it.
        parameters: schema of the function's parameters; empty for an undeclared function.
    """
    return convert_value(text, Schema(parameters, parameters).member(name))


def convert_all(pairs: Iterable[tuple[str, str]], parameters: Mapping[str, Any]) -> str:
    """Return the JSON object of (name, text) pairs; the last of equal names counts.

    Args:
        parameters: schema of the function's parameters; empty for an undeclared function.
    """
    schema = Schema(parameters, parameters)
    return render_object({name: convert_value(text, schema.member(name)) for name, text in pairs})


def convert_value(text: str, schema: Schema) -> str:
    """Return the JSON text of a value with this schema.

    Args:
        text: as the model wrote it.
    """
    if schema.is_text:
        return to_json(text)
    if "null" in schema.kinds and text.strip() in ("null", "None"):
        return "null"
    literal = _read(text.strip(), schema.kinds)
    if literal is None or ("string" in schema.kinds and not _fits(literal, schema.kinds)):
        return to_json(text)
    return literal.text


def _read(text: str, kinds: frozenset[str]) -> Literal | None:
    if "boolean" in kinds and text.lower() in ("true", "false"):
        return Literal(text.lower(), "boolean")
    return read_literal(text)


def _fits(literal: Literal, kinds: frozenset[str]) -> bool:
    """Return whether a literal has an allowed type other than string."""
    if literal.kind == "string":
        return False
    return literal.kind in kinds or (literal.kind == "integer" and "number" in kinds)
