r"""What the grammar engine would not follow to the letter in a JSON schema: mended, or refused.

Owns the places where llguidance 1.9 lets through what a schema forbids. Such a schema is written
anew, so that the fault has no effect, or refused by the keyword at fault where it can't be. What
the engine refuses by itself is no business of this file. Pure; runs where grammars are compiled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from workers.text.toolcalls.schema import resolve

# Says whether the engine takes a schema.
Compiles: TypeAlias = Callable[[dict[str, Any]], bool]

# White space inside JSON is one optional space after a comma or a colon. With none fixed, a weak
# model can write line breaks for ever, and every answer would still be valid so far.
# Without \u, which would let a declared key, spelt `"\u0061"`, pass for an undeclared one.
JSON_STYLE: dict[str, Any] = {
    "whitespace_flexible": False,
    "item_separator": ", ?",
    "key_separator": ": ?",
    "json_allowed_escapes": 'nrbtf\\"',
}

# Keywords whose value is data, and those whose value holds schemas by name.
_DATA = frozenset(("const", "default", "enum", "example", "examples"))
_NAMED = frozenset(("$defs", "definitions", "dependentSchemas", "patternProperties", "properties"))
_BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
# Integers up to here are exact where the engine computes.
_MAX_BOUND = 2**53
_MAX_REFERENCES = 64
# Of outlines: the engine compares each with each.
_MAX_OUTLINE_CHARACTERS = 16_384

# Only leap years have a 29th of February, to the engine all have; and no reader knows a year 0.
_YEAR = r"(\d{3}[1-9]|\d\d[1-9]\d|\d[1-9]\d\d|[1-9]\d{3})"
_REAL_DAYS = (
    rf"^({_YEAR}-((0[13-9]|1[0-2])-\d\d|02-([01]\d|2[0-8]))"
    r"|(\d\d(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)-02-29)"
)

_CLASS = re.compile(r"\\.|\[(?P<not>\^?)(?P<body>(?:\\.|[^\\\]])*)\]", re.DOTALL)
# What Rust gives a meaning in a class and JavaScript does not.
_FOREIGN = re.compile(r"\[|&&|--|~~")
_FROM_NULL = re.compile(r"(?P<null>\\x00|\\u0000|\\0(?!\d)|\0)-|\\.", re.DOTALL)


class InexactError(ValueError):
    """A schema that can't be enforced to the letter.

    Attributes:
        keyword: the one at fault.
        path: where it stands.
    """

    def __init__(self, keyword: str, path: str) -> None:
        super().__init__(f"{keyword} at {path}")
        self.keyword = keyword
        self.path = path


def make_exact(schema: Any, path: str, compiles: Compiles) -> Any:
    """Return a schema for the same values that the engine follows.

    Left out are numbers nearer to an exclusive bound than doubles are.

    Args:
        path: where the schema stands, for errors.

    Raises:
        InexactError: there is none.
    """
    return _Writer(schema, compiles).write(schema, path)


class _Writer:
    """Writes one document anew."""

    def __init__(self, root: Any, compiles: Compiles) -> None:
        self._root = root
        self._compiles = compiles
        parts = list(_parts(root))
        self._has_fractions = any(bound % 1 for part in parts for bound in _bounds(part).values())
        # References are relative to it.
        self._has_ids = any("$id" in part for part in parts[1:])

    def write(self, schema: Any, path: str) -> Any:
        if isinstance(schema, list):
            return [self.write(part, f"{path}[{index}]") for index, part in enumerate(schema)]
        if not isinstance(schema, dict):
            return schema
        _check(schema, path)
        written = {key: self._value(key, value, f"{path}.{key}") for key, value in schema.items()}
        if self._has_fractions and schema.get("type") != "integer":
            _narrow(written)
        others = written.get("allOf", [])
        if schema.get("format") in ("date", "date-time") and isinstance(others, list):
            written["allOf"] = [*others, {"pattern": _REAL_DAYS}]
        if "anyOf" not in schema and self._is_disjoint(schema.get("oneOf")):
            written["anyOf"] = written.pop("oneOf")
        return written

    def _value(self, key: str, value: Any, path: str) -> Any:
        if key in _DATA:
            return value
        if key == "pattern" and isinstance(value, str):
            return _exact_pattern(value, path)
        if key not in _NAMED or not isinstance(value, dict):
            return self.write(value, path)
        parts = {name: self.write(part, f"{path}.{name}") for name, part in value.items()}
        if key != "patternProperties":
            return parts
        return {_exact_pattern(name, path): part for name, part in parts.items()}

    def _is_disjoint(self, branches: Any) -> bool:
        """Return whether no value fits two schemas, of which some are references.

        The engine finds that out by itself, but not through references.
        """
        if not isinstance(branches, list) or not any(map(_is_reference, branches)):
            return False
        outlines = [self._outline(branch) for branch in branches]
        if None in outlines or len(json.dumps(outlines)) > _MAX_OUTLINE_CHARACTERS:
            return False
        return self._compiles({"oneOf": outlines})

    def _outline(self, schema: Any) -> dict[str, Any] | None:
        """Return a wider schema without references; None if they lead nowhere."""
        for _ in range(_MAX_REFERENCES):
            if not _is_reference(schema) or self._has_ids:
                break
            schema = resolve(schema["$ref"], self._root)
        if not isinstance(schema, dict) or _is_reference(schema):
            return None
        outline = _keep(schema, ("type", "const", "enum", "required"))
        members = schema.get("properties")
        if isinstance(members, dict):
            fixed = ("type", "const", "enum")
            outline["properties"] = {name: _keep(part, fixed) for name, part in members.items()}
        return outline


def _parts(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a value and those in it that may be schemas."""
    if isinstance(value, dict):
        yield value
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _parts(part)


def _is_reference(schema: Any) -> bool:
    return isinstance(schema, dict) and isinstance(schema.get("$ref"), str)


def _keep(schema: Any, keywords: Sequence[str]) -> dict[str, Any]:
    return {key: schema[key] for key in keywords if isinstance(schema, dict) and key in schema}


def _bounds(schema: Mapping[str, Any]) -> dict[str, int | float]:
    """Return the limits that a schema sets to numbers."""
    found = _keep(schema, _BOUNDS)
    return {key: bound for key, bound in found.items() if type(bound) in (int, float)}


def _check(schema: Mapping[str, Any], path: str) -> None:
    """Refuse what the engine counts or computes wrongly."""
    for key, bound in _bounds(schema).items():
        if abs(bound) > _MAX_BOUND:
            raise InexactError(key, f"{path}.{key}")
    least, required = schema.get("minProperties"), schema.get("required")
    named = {str(name) for name in required} if isinstance(required, list) else ()
    # The same undeclared member may come twice, and is counted twice.
    if isinstance(least, int | float) and least > len(named) + 1:
        raise InexactError("minProperties", f"{path}.minProperties")


def _narrow(schema: dict[str, Any]) -> None:
    """Move whole exclusive bounds to the next double.

    Up to a fraction above it, as from 0 to 0.5, the engine lets the bound itself through.
    """
    for key, sign in (("exclusiveMinimum", 1), ("exclusiveMaximum", -1)):
        bound = _bounds(schema).get(key)
        if bound is not None and not bound % 1:
            schema[key] = bound + sign * max(1, abs(bound)) * 2**-52


def _exact_pattern(pattern: str, path: str) -> str:
    """Return a pattern that the engine follows.

    Where a class holds all control characters, the engine takes quotes and backslashes for
    members too. So two of them are left out that can't be written in its strings anyway.
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
