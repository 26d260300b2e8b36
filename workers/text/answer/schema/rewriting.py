"""Rewrites the keywords of JSON Schema that the grammar engine lacks in terms of those it has.

Every value that the rewritten schema allows is one that the original allows. Where the engine
can't express all of them, some are left out: docs/decisions/0021-schemas.md lists where. What can't
be rewritten is left for the engine to refuse. Pure; runs where grammars are compiled.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from workers.text.answer.schema.disjointness import Disjointness
from workers.text.answer.schema.member_rules import MEMBER_RULES
from workers.text.answer.schema.negation import Effort, negate, other_kinds
from workers.text.toolcalls.schema import resolve

# Keywords whose value is data, and those whose value holds schemas by name.
DATA = frozenset(("const", "default", "enum", "example", "examples"))
NAMED = frozenset(("$defs", "definitions", "dependentSchemas", "patternProperties", "properties"))
# Those that the engine enforces; any other is an annotation.
_FORMATS = frozenset(
    ("date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid")
)
_MAX_BRANCHES = 32
_MAX_DISTINCT = 4


class Rewriter:
    """Rewrites one document; `root` is the one its references point into."""

    def __init__(self, root: Any, disjointness: Disjointness) -> None:
        self._root = root
        self._effort = Effort()
        self._disjointness = disjointness

    def rewrite(self, schema: Any) -> Any:
        """Return a schema for the same values, or for fewer.

        Raises:
            TooComplexError: it grows too large.
        """
        self._effort.spend()
        if isinstance(schema, list):
            return [self.rewrite(part) for part in schema]
        if not isinstance(schema, dict):
            return schema
        written = {}
        for keyword, value in self._simplify(schema).items():
            if keyword in DATA:
                written[keyword] = value
            elif keyword in NAMED and isinstance(value, dict):
                written[keyword] = {name: self.rewrite(part) for name, part in value.items()}
            else:
                written[keyword] = self.rewrite(value)
        return written

    def _simplify(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return a schema without the keywords that the engine lacks, as far as possible."""
        written = dict(schema)
        _settle_limits(written)
        extra: list[Any] = []
        for rule in (_annotate, *MEMBER_RULES, _distinct, _contain):
            extra += rule(written, self._root)
        extra += self._choose(written) + self._exclude(written) + self._branch(written)
        choices = [part for part in extra if isinstance(part, dict) and part.keys() == {"anyOf"}]
        if len(choices) == len(extra) == 1 and "anyOf" not in written:
            written |= extra.pop()
        if extra:
            before = written.get("allOf", [])
            written["allOf"] = [*(before if isinstance(before, list) else [before]), *extra]
        return written

    def _exclude(self, written: dict[str, Any]) -> list[Any]:
        if "not" not in written:
            return []
        other = negate(written["not"], self._root, self._effort)
        if other is False and not _is_anything(written["not"]):
            return []
        del written["not"]
        return [other]

    def _branch(self, written: dict[str, Any]) -> list[Any]:
        """Write `if` as a choice of two schemas."""
        if "if" not in written or not {"then", "else"} & set(written):
            written.pop("if", None)
            written.pop("then", None)
            written.pop("else", None)
            return []
        condition = written["if"]
        other = negate(condition, self._root, self._effort)
        if other is False and not _is_anything(condition):
            return []
        del written["if"]
        found = _all_of(condition, written.pop("then", True))
        return [{"anyOf": [found, _all_of(other, written.pop("else", True))]}]

    def _choose(self, written: dict[str, Any]) -> list[Any]:
        """Write `oneOf` as a choice of schemas, each without the values of the others."""
        branches = written.get("oneOf")
        if not isinstance(branches, list) or not 0 < len(branches) <= _MAX_BRANCHES:
            return []
        lone = [self._alone(branches, index) for index in range(len(branches))]
        if None in lone:
            return []
        del written["oneOf"]
        return [{"anyOf": lone}]

    def _alone(self, branches: list[Any], index: int) -> Any:
        """Return a branch without the values of the others; None if it can't be expressed."""
        branch = branches[index]
        if self._disjointness.holds(branches):
            return branch
        others = [
            negate(other, self._root, self._effort)
            for place, other in enumerate(branches)
            if place != index and not self._disjointness.holds([branch, other])
        ]
        return None if False in others else _all_of(branch, *others)


def _is_anything(schema: Any) -> bool:
    return schema is True or schema == {}


def _all_of(*parts: Any) -> Any:
    kept = [part for part in parts if not _is_anything(part)]
    return {"allOf": kept} if len(kept) > 1 else (kept or [True])[0]


def _settle_limits(written: dict[str, Any]) -> None:
    """Write the Boolean limits of draft 4 as numbers."""
    for exclusive, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        is_boolean = isinstance(written.get(exclusive), bool) and limit in written
        if is_boolean and written.pop(exclusive):
            written[exclusive] = written.pop(limit)


def _annotate(written: dict[str, Any], _root: Any) -> list[Any]:
    """Drop what says nothing about the value."""
    if isinstance(written.get("format"), str) and written["format"] not in _FORMATS:
        del written["format"]
    if written.get("uniqueItems") is False:
        del written["uniqueItems"]
    for keyword in ("unevaluatedItems", "unevaluatedProperties", "propertyNames"):
        if keyword in written and _is_anything(written[keyword]):
            del written[keyword]
    # With one document, each has one target.
    written.pop("$recursiveAnchor", None)
    if written.get("$recursiveRef") == "#" and "$ref" not in written:
        written["$ref"] = written.pop("$recursiveRef")
    return []


def _distinct(written: dict[str, Any], root: Any) -> list[Any]:
    """Write `uniqueItems` of few values as the list of arrays."""
    if written.get("uniqueItems") is not True:
        return []
    most = written.get("maxItems")
    if most in (0, 1):
        del written["uniqueItems"]
        return []
    values = _values(written.get("items"), root)
    if not values or len(values) > _MAX_DISTINCT or "prefixItems" in written:
        return []
    for keyword in ("uniqueItems", "items", "maxItems"):
        written.pop(keyword, None)
    least = written.pop("minItems", 0)
    most = len(values) if not isinstance(most, int) else min(most, len(values))
    sizes = range(least, most + 1) if isinstance(least, int) else range(0)
    arrays = [[*row] for size in sizes for row in itertools.permutations(values, size)]
    allowed: list[Any] = [{"enum": arrays}] if arrays else []
    return [{"anyOf": [*allowed, other_kinds("array")]}]


def _values(items: Any, root: Any) -> list[Any]:
    """Return all values of a schema that lists them."""
    for _ in range(_MAX_BRANCHES):
        if not isinstance(items, dict) or not isinstance(items.get("$ref"), str):
            break
        items = resolve(items["$ref"], root)
    if not isinstance(items, dict):
        return []
    if items.get("type") == "boolean" and "enum" not in items:
        return [True, False]
    named = items.get("enum")
    if not isinstance(named, list) or set(items) & {"allOf", "anyOf", "oneOf", "not", "if"}:
        return []
    kinds = items.get("type")
    if kinds not in (None, "string") or not all(isinstance(value, str) for value in named):
        return []
    return list(dict.fromkeys(named))


def _contain(written: dict[str, Any], _root: Any) -> list[Any]:
    """Let the items that `contains` asks for come first."""
    if "contains" not in written or "prefixItems" in written or "maxContains" in written:
        return []
    items = written.get("items", True)
    least = written.get("minContains", 1)
    if isinstance(items, list) or not isinstance(least, int) or not 0 <= least <= _MAX_BRANCHES:
        return []
    found = _all_of(written.pop("contains"), items)
    written.pop("minContains", None)
    if not least:
        return []
    return [
        {"anyOf": [other_kinds("array"), {
            "type": "array", "prefixItems": [found] * least, "minItems": least, "items": items,
        }]}
    ]  # fmt: skip
