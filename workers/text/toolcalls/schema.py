"""The types that a JSON Schema allows for a value.

Follows references and combinations and ignores every other constraint. Pure; never raises,
whatever the schema holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from workers.text.toolcalls.reader.json_text import kind_of

# Not in JSON Schema, but clients send them.
_ALIASES = {
    "str": "string",
    "text": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
}


class Schema:
    """The schema of one value.

    Args:
        schema: of the value; anything but a mapping allows every type.
        root: the document that references point into.
    """

    def __init__(self, schema: Any, root: Mapping[str, Any]) -> None:
        self._root = root
        self._schemas = list(_flatten(schema, root))

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The JSON types that the value may have; empty when unknown."""
        return frozenset(kind for schema in self._schemas for kind in _kinds(schema))

    @property
    def is_text(self) -> bool:
        """Whether the value is always a string."""
        return self.kinds == {"string"}

    def member(self, name: str) -> Schema:
        found = [member for schema in self._schemas for member in _members(schema, name)]
        return Schema({"anyOf": found}, self._root)

    def element(self) -> Schema:
        found = [schema["items"] for schema in self._schemas if "items" in schema]
        return Schema({"anyOf": found}, self._root)


def _flatten(schema: Any, root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and those it combines or refers to, each once."""
    waiting, seen = [schema], set()
    while waiting:
        schema = waiting.pop()
        if not isinstance(schema, Mapping) or id(schema) in seen:
            continue
        seen.add(id(schema))
        yield schema
        if isinstance(schema.get("$ref"), str):
            waiting.append(resolve(schema["$ref"], root))
        for word in ("anyOf", "oneOf", "allOf"):
            parts = schema.get(word)
            waiting.extend(parts if isinstance(parts, list) else ())


def resolve(reference: str, root: Mapping[str, Any]) -> Any:
    """Return the target of a reference within the document; None if there is none."""
    node: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(node, Mapping) or key not in node:
            return None
        node = node[key]
    return node


def _kinds(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the types that a schema names, or else those of its enum and const values."""
    named = schema.get("type")
    if named is not None:
        for kind in named if isinstance(named, list) else [named]:
            yield _ALIASES.get(str(kind).lower(), str(kind).lower())
        return
    values = schema.get("enum")
    yield from map(kind_of, values if isinstance(values, list) else ())
    if "const" in schema:
        yield kind_of(schema["const"])


def _members(schema: Mapping[str, Any], name: str) -> Iterator[Any]:
    members = schema.get("properties")
    if isinstance(members, Mapping) and name in members:
        yield members[name]
    elif "additionalProperties" in schema:
        yield schema["additionalProperties"]
