"""Random JSON schemas with bounded strings and arrays, for tests and measurements."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema

_ENDS = ["string", "integer", "boolean", "enum", "const", "null"]


def make_schemas(count: int, seed: int) -> list[dict[str, Any]]:
    """Return schemas of objects with one member."""
    rng = random.Random(seed)
    return [_object({"v": _make(rng, 2)}, ["v"]) for _ in range(count)]


def to_fields(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a chat completion with a schema."""
    inner = {"name": "x", "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": inner}}


def check_answer(choice: dict[str, Any], schema: dict[str, Any]) -> bool:
    """Return whether a choice is finished; a finished one must be valid."""
    if choice["finish_reason"] != "stop":
        return False
    jsonschema.validate(json.loads(choice["message"]["content"]), schema)
    return True


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _make(rng: random.Random, depth: int) -> dict[str, Any]:
    kind = rng.choice(_ENDS + (["object", "array", "anyOf"] if depth else []))
    if kind == "object":
        names = rng.sample(["a", "b", "name", "größe"], rng.randint(1, 3))
        members = {name: _make(rng, depth - 1) for name in names}
        return _object(members, names[: rng.randint(0, len(names))])
    if kind == "array":
        low = rng.randint(0, 2)
        items = _make(rng, depth - 1)
        return {"type": "array", "items": items, "minItems": low, "maxItems": low + 1}
    if kind == "anyOf":
        return {"anyOf": [_make(rng, depth - 1) for _ in range(2)]}
    return _make_end(rng, kind)


def _make_end(rng: random.Random, kind: str) -> dict[str, Any]:
    if kind == "string":
        return {"type": "string", "maxLength": rng.randint(1, 6)}
    if kind == "integer":
        low = rng.randint(-9, 9)
        return {"type": "integer", "minimum": low, "maximum": low + rng.randint(0, 50)}
    if kind == "enum":
        return {"enum": rng.sample(["red", "green", 1, 2.5, None, True], 3)}
    if kind == "const":
        return {"const": rng.choice(["fixed", 7, [1, 2]])}
    return {"type": kind}
