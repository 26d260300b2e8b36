"""Constraints on answers in all dialects: schemas and grammars, checked but not compiled.

Owns the size limits on schemas, which workers compile. Error messages never contain the schema.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from gateway.dialects import json_body
from gateway.dialects.base import Policy
from gateway.dialects.sampling import invalid
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb
from shared.tool_choice import is_forced

# Limits of the REST reference, section on structured output.
_MAX_SCHEMA_BYTES: Final = 64 * 1024
_MAX_SCHEMA_DEPTH: Final = 32
_MAX_REFS: Final = 64
_MAX_GRAMMAR_BYTES: Final = 64 * 1024

_ANY: Final = msgspec.json.Decoder(Any)


def parse_schema(raw: msgspec.Raw, path: str, field: str = "response_format") -> pb.Grammar:
    """Return a schema as a constraint, unchanged except for white space.

    Args:
        path: JSON path of the schema in the body.
        field: the name of the field in error messages.

    Raises:
        ServiceError: it is not a schema, or too large.
    """
    schema = json_body.decode(_ANY, raw, path)
    if not isinstance(schema, dict | bool):
        sentence = f"invalid JSON schema for {field}: not an object"
        raise ServiceError("invalid_request", sentence, path)
    text = json_body.compact(raw)
    if len(text) > _MAX_SCHEMA_BYTES:
        size = f"schema serialised size {len(text)} bytes exceeds limit {_MAX_SCHEMA_BYTES} bytes"
        raise _too_large(field, size, path)
    depth = json_body.depth(schema, _MAX_SCHEMA_DEPTH) if isinstance(schema, dict) else 0
    if depth > _MAX_SCHEMA_DEPTH:
        raise _too_large(field, f"nesting depth {depth} exceeds limit {_MAX_SCHEMA_DEPTH}", path)
    if (refs := _count_refs(schema)) > _MAX_REFS:
        raise _too_large(field, f"$ref count {refs} exceeds limit {_MAX_REFS}", path)
    return pb.Grammar(json_schema=text.decode(), path=path, field=field)


def parse_gbnf(text: str) -> pb.Grammar:
    """Return a llama.cpp grammar as a constraint.

    Raises:
        ServiceError: it is too large.
    """
    if len(text.encode()) > _MAX_GRAMMAR_BYTES:
        raise ServiceError("invalid_request", "grammar exceeds 65536 bytes", "grammar")
    return pb.Grammar(gbnf=text)


def parse_json_object(fields: Mapping[str, msgspec.Raw], path: str, field: str) -> pb.Grammar:
    """Return the constraint of a `json_object`, which may carry a schema.

    Source: `schema` is llama-server's form, `value` that of text-generation-inference.
    """
    for name in ("schema", "value"):
        if bytes(fields.get(name, b"null")) != b"null":
            return parse_schema(fields[name], f"{path}.{name}", field)
    return pb.Grammar(json_schema='{"type":"object"}')


def settle_forced_choice(request: pb.GenerateRequest, policy: Policy) -> None:
    """Refuse a structured output beside a forced tool choice, or drop it, as the server is set.

    Raises:
        ServiceError: `invalid_request`.
    """
    if not request.HasField("grammar") or not is_forced(request.chat.tool_choice):
        return
    if not policy.forced_call_wins:
        raise invalid(
            "tool_choice",
            "can't be forced together with a structured output, unless the server runs with "
            "--forced-choice-with-schema call",
        )
    request.ClearField("grammar")


def _count_refs(value: Any) -> int:
    if isinstance(value, dict):
        # A property may be named "$ref".
        return isinstance(value.get("$ref"), str) + sum(map(_count_refs, value.values()))
    return sum(map(_count_refs, value)) if isinstance(value, list) else 0


def _too_large(field: str, sentence: str, path: str) -> ServiceError:
    return ServiceError("invalid_request", f"{field} schema too large: {sentence}", path)
