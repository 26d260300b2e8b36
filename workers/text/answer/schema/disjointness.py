"""Whether no value matches two of several schemas, as `oneOf` requires.

The engine decides it, except through references; those are replaced by wider schemas without any.
Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from workers.text.toolcalls.schema import resolve

# Returns whether the engine accepts a schema.
Compiles: TypeAlias = Callable[[dict[str, Any]], bool]

_MAX_REFERENCES = 64
# Of all outlines: the engine compares each with each.
_MAX_OUTLINE_CHARACTERS = 16_384


class Disjointness:
    """Compares schemas of one document.

    Args:
        root: the document that references point into.
    """

    def __init__(self, root: Any, compiles: Compiles) -> None:
        self._root = root
        self._compiles = compiles
        self._known: dict[str, bool] = {}
        # References are relative to the nearest $id.
        self._has_ids = isinstance(root, dict) and any(map(_has_id, root.values()))

    def holds(self, schemas: Sequence[Any]) -> bool:
        """Return whether no value is known to match two of the schemas."""
        outlines = [self._outline(schema) for schema in schemas]
        key = json.dumps(outlines)
        if None in outlines or len(key) > _MAX_OUTLINE_CHARACTERS:
            return False
        if key not in self._known:
            self._known[key] = self._compiles({"oneOf": outlines})
        return self._known[key]

    def _outline(self, schema: Any) -> dict[str, Any] | None:
        """Return a wider schema without references; None if one can't be resolved."""
        for _ in range(_MAX_REFERENCES):
            if not _is_reference(schema) or self._has_ids:
                break
            schema = resolve(schema["$ref"], self._root)
        if not isinstance(schema, dict) or _is_reference(schema):
            return None
        outline = _keep(schema, ("type", "const", "enum", "required", *_RANGES))
        members = schema.get("properties")
        if isinstance(members, dict):
            fixed = ("type", "const", "enum")
            outline["properties"] = {name: _keep(part, fixed) for name, part in members.items()}
        return outline


_RANGES = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")


def _has_id(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (isinstance(value, dict) and "$id" in value) or any(map(_has_id, parts))


def _is_reference(schema: Any) -> bool:
    return isinstance(schema, dict) and isinstance(schema.get("$ref"), str)


def _keep(schema: Any, keywords: Sequence[str]) -> dict[str, Any]:
    return {key: schema[key] for key in keywords if isinstance(schema, dict) and key in schema}
