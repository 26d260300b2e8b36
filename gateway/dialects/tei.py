"""Embeddings and the model's description in the form of text-embeddings-inference.

Owns the fields of `/embed`, its bare array of vectors, and the answer of `/info`. Reranking in this
form is rerank.py's. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec
import orjson

from gateway.dialects.embeddings import EmbeddingsBody, decode_fields, read_rows
from gateway.dialects.json_body import decode
from gateway.dialects.sampling import invalid
from shared.pb import embed_pb2 as pb
from shared.pb import worker_pb2

_EUCLIDEAN, _NO_NORM = 2, -1


class TeiBody(msgspec.Struct):
    """The body; texts that are too long are always truncated, on the right."""

    inputs: str | list[str]
    normalize: bool = True
    dimensions: int | None = None
    model: str | None = None
    # Read only to be checked.
    truncate: bool | None = None
    truncation_direction: Literal["right", "Right", "left", "Left"] | None = None
    prompt_name: str | None = None


_SHAPE: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BODY: Final = msgspec.json.Decoder(TeiBody)


def parse(body: bytes) -> EmbeddingsBody:
    """Return the fields of a body.

    Raises:
        ServiceError: `invalid_request`, naming the field.
    """
    if "inputs" not in decode(_SHAPE, body):
        raise invalid("inputs", "must be a text or a list of texts")
    fields = decode_fields(_BODY, body)
    if (fields.truncation_direction or "right").lower() != "right":
        raise invalid("truncation_direction", "must be right: texts are truncated at their end")
    if fields.prompt_name:
        raise invalid("prompt_name", "is not supported: write the prompt before the text")
    return EmbeddingsBody(
        input=[fields.inputs] if isinstance(fields.inputs, str) else [*fields.inputs],
        model=fields.model,
        dimensions=fields.dimensions,
        embd_normalize=_EUCLIDEAN if fields.normalize else _NO_NORM,
    )


def render(reply: pb.EmbedReply) -> Iterator[bytes]:
    """Yield the array of vectors, one at a time."""
    yield b"["
    for index, row in enumerate(read_rows(reply)):
        yield b"," * (index > 0) + orjson.dumps(row.cast("f").tolist())
    yield b"]"


def describe(card: worker_pb2.ModelCard, *, reranks: bool) -> dict[str, Any]:
    """Return the answer of `/info`."""
    return {
        "model_id": card.name,
        "model_type": {"reranker": {}} if reranks else {"embedding": {}},
        "max_input_length": card.context_tokens,
        "auto_truncate": True,
    }
