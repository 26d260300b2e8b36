"""llama-server's own completions: the four functions of the dialect.

Owns the prompt of a request. wire.py declares fields, parsed.py reads those shared with infills,
stream.py renders the stream, answer.py the response. Pure.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import orjson

from gateway.dialects.base import Renderer, Stamp
from gateway.dialects.json_body import decode
from gateway.dialects.llama import answer, errors, wire
from gateway.dialects.llama.parsed import NativeParsed, parse_native
from gateway.dialects.llama.stream import NativeStream
from gateway.dialects.llama.tokenization import MAX_PIECES
from gateway.generation.fold import Completion
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb

ID_PREFIX: Final = "cmpl-"
KNOWN: Final = frozenset(wire.NativeBody.__struct_fields__) | wire.NATIVE_IGNORED.keys()

error = errors.error

_BODY: Final = msgspec.json.Decoder(wire.NativeBody)


def parse(body: bytes, stamp: Stamp) -> NativeParsed:
    """Return the request of a body.

    Raises:
        ServiceError: `invalid_request`, naming the field.
    """
    fields = decode(_BODY, body)
    return parse_native(fields, _parse_prompt(fields.prompt), stamp)


def renderer(parsed: NativeParsed, model: str) -> Renderer:
    return NativeStream(parsed, model)


def body(parsed: NativeParsed, model: str, completion: Completion) -> bytes:
    has_new_line = "\n" in completion.whole_text
    return orjson.dumps(answer.describe(parsed, model, completion, has_new_line=has_new_line))


def _parse_prompt(prompt: str | list[int | str]) -> dict[str, Any]:
    """Return the prompt as a field of the canonical request."""
    if isinstance(prompt, str):
        return {"text": prompt}
    if not prompt:
        raise ServiceError("invalid_request", "prompt must not be an empty array", "prompt")
    ids = [item for item in prompt if isinstance(item, int)]
    if len(ids) == len(prompt):
        return {"tokens": pb.TokenIds(ids=ids)}
    if not ids:
        return {"text": _only(prompt)}
    if len(prompt) > MAX_PIECES:
        sentence = f"prompt mixes more than {MAX_PIECES} texts and token ids"
        raise ServiceError("invalid_request", sentence, "prompt")
    pieces = [
        pb.TokenizePiece(id=item) if isinstance(item, int) else pb.TokenizePiece(text=item)
        for item in prompt
    ]
    return {"pieces": pb.Pieces(pieces=pieces)}


def _only(prompt: list[Any]) -> str:
    """Return the text of an array of one string; several would be several prompts."""
    if len(prompt) > 1:
        raise ServiceError("invalid_request", "prompt must be one: send a request each", "prompt")
    return str(prompt[0])
