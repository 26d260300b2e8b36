"""Structured output as OpenAI bodies ask for it: checked and bounded, not compiled.

Owns the limits that keep a hostile schema from costing anything; what a schema means is the
worker's business. Messages never carry the schema itself. Pure.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gateway import body
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb

# Limits of the REST reference, section on structured output.
_MAX_SCHEMA_BYTES: Final = 64 * 1024
_MAX_SCHEMA_DEPTH: Final = 32
_MAX_REFS: Final = 64
_MAX_GRAMMAR_BYTES: Final = 64 * 1024

_ANY: Final = msgspec.json.Decoder(Any)
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def parse_response_format(fields: dict[str, msgspec.Raw] | None) -> pb.Grammar | None:
    """Return the constraint that `response_format` asks for, if any.

    Raises:
        ServiceError: it is malformed, unsupported or too large.
    """
    kind = body.decode(_ANY, fields["type"]) if fields and "type" in fields else None
    if fields is None or kind in (None, "text"):
        return None
    if kind != "json_schema":
        raise _refusal("type must be 'text' or 'json_schema'", "response_format.type")
    inner: dict[str, msgspec.Raw] = {}
    if "json_schema" in fields:
        inner = body.decode(_OBJECT, fields["json_schema"], "response_format.json_schema")
    if "schema" not in inner:
        raise _refusal("json_schema.schema is required", "response_format.json_schema.schema")
    return parse_schema(inner["schema"], "response_format.json_schema.schema")


def parse_schema(raw: msgspec.Raw, path: str) -> pb.Grammar:
    """Return a schema as a constraint, kept as the client wrote it but for white space.

    Raises:
        ServiceError: it is no schema, or too large.
    """
    schema = body.decode(_ANY, raw, path)
    if not isinstance(schema, dict | bool):
        raise ServiceError(
            "invalid_request", "invalid JSON schema for response_format: not an object", path
        )
    text = msgspec.json.format(bytes(raw), indent=-1)
    if len(text) > _MAX_SCHEMA_BYTES:
        raise _too_large(
            f"schema serialised size {len(text)} bytes exceeds limit {_MAX_SCHEMA_BYTES}", path
        )
    depth = body.depth(schema, _MAX_SCHEMA_DEPTH) if isinstance(schema, dict) else 0
    if depth > _MAX_SCHEMA_DEPTH:
        raise _too_large(f"nesting depth {depth} exceeds limit {_MAX_SCHEMA_DEPTH}", path)
    if (refs := _count_refs(schema)) > _MAX_REFS:
        raise _too_large(f"$ref count {refs} exceeds limit {_MAX_REFS}", path)
    return pb.Grammar(json_schema=text.decode())


def parse_gbnf(text: str) -> pb.Grammar:
    """Return a llama.cpp grammar as a constraint.

    Raises:
        ServiceError: it is too large.
    """
    if len(text.encode()) > _MAX_GRAMMAR_BYTES:
        raise ServiceError("invalid_request", "grammar exceeds 65536 bytes", "grammar")
    return pb.Grammar(gbnf=text)


def _count_refs(value: Any) -> int:
    if isinstance(value, dict):
        return ("$ref" in value) + sum(map(_count_refs, value.values()))
    return sum(map(_count_refs, value)) if isinstance(value, list) else 0


def _refusal(sentence: str, path: str) -> ServiceError:
    return ServiceError("invalid_request", f"invalid response_format: {sentence}", path)


def _too_large(sentence: str, path: str) -> ServiceError:
    return ServiceError("invalid_request", f"response_format schema too large: {sentence}", path)
