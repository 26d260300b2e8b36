"""Structured output in OpenAI bodies.

Owns the forms of `response_format`; dialects/grammar.py checks the schema. Pure.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gateway.dialects import json_body
from gateway.dialects.base import Policy
from gateway.dialects.grammar import parse_gbnf, parse_json_object, parse_schema
from gateway.dialects.openai import wire
from gateway.dialects.sampling import invalid
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb

TYPE_RULE: Final = (
    "type must be 'text' or 'json_schema', or 'json_object' if the server runs with --json-object"
)
_ANY: Final = msgspec.json.Decoder(Any)
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def parse_grammar(fields: wire.TextFields, policy: Policy) -> pb.Grammar | None:
    """Return the constraint of a body, if any.

    Raises:
        ServiceError: it is malformed, unsupported or too large, or there is more than one.
    """
    found = [parse_response_format(fields.response_format, policy)]
    if bytes(fields.json_schema) != b"null":
        found.append(parse_schema(fields.json_schema, "json_schema"))
    if fields.grammar:
        found.append(parse_gbnf(fields.grammar))
    given = [grammar for grammar in found if grammar is not None]
    if len(given) > 1:
        raise invalid("response_format", "can't be combined with grammar or json_schema")
    return given[0] if given else None


def parse_response_format(
    fields: dict[str, msgspec.Raw] | None, policy: Policy
) -> pb.Grammar | None:
    """Return the constraint of `response_format`, if any.

    Raises:
        ServiceError: it is malformed, unsupported or too large.
    """
    kind = json_body.decode(_ANY, fields["type"]) if fields and "type" in fields else None
    if fields is None or kind in (None, "text"):
        return None
    if kind == "json_object" and policy.json_object:
        return parse_json_object(fields, "response_format", "response_format")
    if kind != "json_schema":
        raise _refusal(TYPE_RULE, "response_format.type")
    inner: dict[str, msgspec.Raw] = {}
    if "json_schema" in fields:
        inner = json_body.decode(_OBJECT, fields["json_schema"], "response_format.json_schema")
    if "schema" not in inner:
        raise _refusal("json_schema.schema is required", "response_format.json_schema.schema")
    return parse_schema(inner["schema"], "response_format.json_schema.schema")


def _refusal(sentence: str, path: str) -> ServiceError:
    return ServiceError("invalid_request", f"invalid response_format: {sentence}", path)
