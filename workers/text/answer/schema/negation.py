"""The values that a JSON schema forbids, as another schema.

Owns the negation of a schema, for `not`, `if` and `oneOf`. What can't be negated exactly is
negated more narrowly: every value that the negation allows is one that the schema forbids, but not
the other way round. Pure.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workers.text.toolcalls.reader.json_text import kind_of
from workers.text.toolcalls.schema import resolve

_KINDS = ("null", "boolean", "number", "string", "array", "object")
# Of all schemas written for one document; the largest public ones take a fifth.
MAX_PARTS = 10_000
_MAX_DEPTH = 16
# For each limit: the type that it applies to, its opposite, and how far that is.
_OPPOSITES = {
    "minimum": ("number", "exclusiveMaximum", 0),
    "exclusiveMinimum": ("number", "maximum", 0),
    "maximum": ("number", "exclusiveMinimum", 0),
    "exclusiveMaximum": ("number", "minimum", 0),
    "minLength": ("string", "maxLength", -1),
    "maxLength": ("string", "minLength", 1),
    "minItems": ("array", "maxItems", -1),
    "maxItems": ("array", "minItems", 1),
    "minProperties": ("object", "maxProperties", -1),
    "maxProperties": ("object", "minProperties", 1),
}


class TooComplexError(ValueError):
    """A schema that would grow too large."""


class Effort:
    """Counts the parts that are written for one document, up to a limit."""

    def __init__(self) -> None:
        self._left = MAX_PARTS

    def spend(self) -> None:
        """Count a part.

        Raises:
            TooComplexError: there are too many.
        """
        self._left -= 1
        if self._left < 0:
            raise TooComplexError


def negate(schema: Any, root: Any, effort: Effort, depth: int = 0) -> Any:
    """Return a schema for values that `schema` forbids; False if none can be expressed.

    Args:
        root: the document that references point into.

    Raises:
        TooComplexError: the schema is too large.
    """
    effort.spend()
    if isinstance(schema, bool):
        return not schema
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return False
    return _any_of(
        [part for part in _alternatives(schema, root, effort, depth + 1) if part is not False]
    )


def _any_of(parts: Sequence[Any]) -> Any:
    if not parts:
        return False
    return parts[0] if len(parts) == 1 else {"anyOf": [*parts]}


def _alternatives(
    schema: Mapping[str, Any], root: Any, effort: Effort, depth: int
) -> Iterator[Any]:
    """Yield schemas for the values that violate one keyword each."""
    for keyword, value in schema.items():
        if keyword in _OPPOSITES:
            yield _beyond(keyword, value)
        elif keyword == "$ref" and isinstance(value, str):
            yield negate(resolve(value, root), root, effort, depth)
        elif keyword == "type":
            yield other_kinds(value)
        elif keyword == "const":
            yield from exclude([value])
        elif keyword == "enum" and isinstance(value, list):
            yield from exclude(value)
        elif keyword == "required" and isinstance(value, list):
            for name in value:
                yield {"type": "object", "properties": {str(name): False}}
        elif keyword == "not":
            yield value
        else:
            yield from _nested(keyword, value, root, effort, depth)


def _nested(keyword: str, value: Any, root: Any, effort: Effort, depth: int) -> Iterator[Any]:
    if keyword == "properties" and isinstance(value, dict):
        for name, part in value.items():
            other = negate(part, root, effort, depth)
            if other is not False:
                yield {"type": "object", "properties": {name: other}, "required": [name]}
    elif keyword == "items" and isinstance(value, dict | bool):
        other = negate(value, root, effort, depth)
        if other is not False:
            yield {"type": "array", "minItems": 1, "prefixItems": [other]}
    elif keyword == "contains":
        other = negate(value, root, effort, depth)
        yield {"type": "array", "maxItems": 0} if other is False else _array_of(other)
    elif keyword in ("anyOf", "oneOf") and isinstance(value, list):
        others = [negate(part, root, effort, depth) for part in value]
        yield False if False in others else {"allOf": others}
    elif keyword == "allOf" and isinstance(value, list):
        yield from (negate(part, root, effort, depth) for part in value)


def _array_of(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _beyond(keyword: str, limit: Any) -> Any:
    kind, opposite, step = _OPPOSITES[keyword]
    if type(limit) not in (int, float):
        return False
    if step and (limit != int(limit) or limit + step < 0):
        return False
    return {"type": kind, opposite: int(limit) + step if step else limit}


def other_kinds(kinds: Any) -> Any:
    """Return a schema for the values of all other types; False if there are none."""
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not isinstance(kinds, list):
        return False
    # The engine can't express a number that is no integer.
    if "integer" in kinds and "number" not in kinds:
        return False
    rest = [kind for kind in _KINDS if kind not in kinds]
    return {"type": rest} if rest else False


def exclude(values: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Yield schemas for all values but some; arrays and objects only as far as possible."""
    kinds = {"number" if kind_of(v) == "integer" else kind_of(v) for v in values}
    rest = [kind for kind in _KINDS if kind not in kinds]
    if rest:
        yield {"type": rest}
    if "boolean" in kinds:
        left = [flag for flag in (True, False) if not any(v is flag for v in values)]
        if left:
            yield {"enum": left}
    texts = [value for value in values if isinstance(value, str)]
    if texts:
        yield {"type": "string", "pattern": f"^{_other_texts(texts, 0)}$"}
    numbers = sorted({v for v in values if type(v) in (int, float)})
    if numbers:
        yield {"type": "number", "exclusiveMaximum": numbers[0]}
        for low, high in itertools.pairwise(numbers):
            yield {"type": "number", "exclusiveMinimum": low, "exclusiveMaximum": high}
        yield {"type": "number", "exclusiveMinimum": numbers[-1]}
    # The engine can't exclude other arrays and objects.
    for empty, kind, limit in (([], "array", "minItems"), ({}, "object", "minProperties")):
        if kind in kinds and all(v == empty for v in values if kind_of(v) == kind):
            yield {"type": kind, limit: 1}


def _other_texts(texts: Sequence[str], offset: int) -> str:
    """Return a pattern for what may follow a common prefix, other than the rest of each text."""
    heads = sorted({text[offset] for text in texts if len(text) > offset})
    parts = ["" if all(len(text) > offset for text in texts) else None]
    for head in heads:
        inner = [text for text in texts if len(text) > offset and text[offset] == head]
        parts.append(f"{re.escape(head)}{_other_texts(inner, offset + 1)}")
    others = "".join(map(_in_class, heads))
    parts.append(rf"[^{others}][\s\S]*" if heads else r"[\s\S]+")
    return f"(?:{'|'.join(part for part in parts if part is not None)})"


def _in_class(character: str) -> str:
    return rf"\{character}" if character in r"\]^-[&~" else character
