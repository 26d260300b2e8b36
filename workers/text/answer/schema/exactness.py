r"""Rewrites JSON schemas that the grammar engine would not enforce exactly, or refuses them.

Owns the cases in which llguidance 1.9 accepts values that a schema forbids. Such a schema is
rewritten so that the fault has no effect or, where that is impossible, refused with the keyword at
fault. Schemas that the engine refuses itself are left to it. Pure; runs where grammars are
compiled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workers.text.answer.schema.disjointness import Compiles, Disjointness
from workers.text.answer.schema.rewriting import DATA, NAMED, Rewriter
from workers.text.answer.schema.time_format import TIME_PATTERNS

# White space inside JSON is one optional space after a comma or a colon. If it were free, a weak
# model could write line breaks without end and still be valid.
# No \u escapes: a declared key spelt `"\u0061"` would count as an undeclared one.
JSON_STYLE: dict[str, Any] = {
    "whitespace_flexible": False,
    "item_separator": ", ?",
    "key_separator": ": ?",
    "json_allowed_escapes": 'nrbtf\\"',
}

_BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
# Integers up to here are exact where the engine computes.
_MAX_BOUND = 2**53

_CLASS = re.compile(r"\\.|\[(?P<not>\^?)(?P<body>(?:\\.|[^\\\]])*)\]", re.DOTALL)
# Syntax with a meaning in Rust's character classes but not in JavaScript's.
_FOREIGN = re.compile(r"\[|&&|--|~~")
_FROM_NULL = re.compile(r"(?P<null>\\x00|\\u0000|\\0(?!\d)|\0)-|\\.", re.DOTALL)


class InexactError(ValueError):
    """A schema that can't be enforced exactly.

    Attributes:
        keyword: the keyword at fault.
        path: its JSON path.
    """

    def __init__(self, keyword: str, path: str) -> None:
        super().__init__(f"{keyword} at {path}")
        self.keyword = keyword
        self.path = path


def make_exact(schema: Any, path: str, compiles: Compiles) -> Any:
    """Return a schema for the same values that the engine enforces exactly.

    Numbers closer to an exclusive bound than the next double are excluded.

    Args:
        path: JSON path of the schema, for errors.

    Raises:
        InexactError: there is no such schema.
    """
    rewritten = Rewriter(schema, Disjointness(schema, compiles)).rewrite(schema)
    return _SchemaWriter(rewritten).write(rewritten, path)


class _SchemaWriter:
    """Rewrites one document."""

    def __init__(self, root: Any) -> None:
        bounds = (bound for part in _parts(root) for bound in _bounds(part).values())
        self._has_fractions = any(bound % 1 for bound in bounds)

    def write(self, schema: Any, path: str) -> Any:
        if isinstance(schema, list):
            return [self.write(part, f"{path}[{index}]") for index, part in enumerate(schema)]
        if not isinstance(schema, dict):
            return schema
        _check(schema, path)
        written = {key: self._value(key, value, f"{path}.{key}") for key, value in schema.items()}
        if self._has_fractions and schema.get("type") != "integer":
            _narrow(written)
        others, known = written.get("allOf", []), schema.get("format")
        if known in TIME_PATTERNS and isinstance(others, list):
            written["allOf"] = [*others, {"pattern": TIME_PATTERNS[known]}]
        return written

    def _value(self, key: str, value: Any, path: str) -> Any:
        if key in DATA:
            return value
        if key == "pattern" and isinstance(value, str):
            return _exact_pattern(value, path)
        if key not in NAMED or not isinstance(value, dict):
            return self.write(value, path)
        parts = {name: self.write(part, f"{path}.{name}") for name, part in value.items()}
        if key != "patternProperties":
            return parts
        return {_exact_pattern(name, path): part for name, part in parts.items()}


def _parts(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a value and every object in it, each of which may be a schema."""
    if isinstance(value, dict):
        yield value
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _parts(part)


def _keep(schema: Any, keywords: Sequence[str]) -> dict[str, Any]:
    return {key: schema[key] for key in keywords if isinstance(schema, dict) and key in schema}


def _bounds(schema: Mapping[str, Any]) -> dict[str, int | float]:
    """Return the limits that a schema sets for numbers."""
    found = _keep(schema, _BOUNDS)
    return {key: bound for key, bound in found.items() if type(bound) in (int, float)}


def _check(schema: Mapping[str, Any], path: str) -> None:
    """Raise InexactError for limits that the engine counts or computes wrongly."""
    for key, bound in _bounds(schema).items():
        if abs(bound) > _MAX_BOUND:
            raise InexactError(key, f"{path}.{key}")
    least, required = schema.get("minProperties"), schema.get("required")
    named = {str(name) for name in required} if isinstance(required, list) else ()
    # An undeclared member may be repeated, and the engine counts it twice.
    if isinstance(least, int | float) and least > len(named) + 1:
        raise InexactError("minProperties", f"{path}.minProperties")


def _narrow(schema: dict[str, Any]) -> None:
    """Move whole exclusive bounds to the next double.

    Combined with a fractional bound, as in 0 to 0.5, the engine accepts the bound itself.
    """
    for key, sign in (("exclusiveMinimum", 1), ("exclusiveMaximum", -1)):
        bound = _bounds(schema).get(key)
        if bound is not None and not bound % 1:
            schema[key] = bound + sign * max(1, abs(bound)) * 2**-52


def _exact_pattern(pattern: str, path: str) -> str:
    """Return a pattern that the engine enforces exactly.

    If a class holds all control characters, the engine also accepts quotes and backslashes. So
    two of them are left out, which its strings can't hold anyway.
    """

    def write(match: re.Match[str]) -> str:
        body = match["body"]
        if body is None:
            return match[0]
        if not body or _FOREIGN.search(re.sub(r"\\.", "_", body)):
            raise InexactError("pattern", path)
        if match["not"]:
            dash = "\\" if body.startswith("-") else ""
            return rf"[^\x01{dash}{body}]"
        kept = _FROM_NULL.sub(lambda found: r"\x02-" if found["null"] else found[0], body)
        return f"[{kept}]"

    return _CLASS.sub(write, pattern)
