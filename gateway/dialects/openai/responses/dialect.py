"""The Responses API as a text dialect.

A request may continue a history that must be fetched first; `request.read` and `request.make` are
the two halves of `parse` before and after that. Pure.
"""

from __future__ import annotations

from typing import Final

import orjson

from gateway.dialects.base import Renderer, Stamp
from gateway.dialects.openai import errors
from gateway.dialects.openai.responses import answer, wire
from gateway.dialects.openai.responses.request import ParsedResponse, input_items, make, read
from gateway.dialects.openai.responses.stream import ResponseStream
from gateway.generation.fold import Completion

ID_PREFIX: Final = "resp_"
KNOWN: Final = frozenset(wire.ResponseBody.__struct_fields__) | wire.RESPONSE_IGNORED.keys()

error = errors.error


def parse(body: bytes, stamp: Stamp) -> ParsedResponse:
    """Return the request of a body without a history.

    Raises:
        ServiceError: `invalid_request`, naming the field.
    """
    fields = read(body)
    return make(fields, input_items(fields.input), stamp)


def renderer(parsed: ParsedResponse, model: str) -> Renderer:
    return ResponseStream(parsed, model)


def body(parsed: ParsedResponse, model: str, completion: Completion) -> bytes:
    items = answer.output(parsed, completion, ())
    return orjson.dumps(answer.finish(parsed, model, items, completion.finished))
