"""Reranking as Jina and Cohere write it (`documents`) and as TEI does (`texts`).

Owns the fields of the body, the order of the checks, and both forms of the response. Results are
sorted by score, equal scores by index. Pure.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import orjson

from gateway.dialects.embeddings import EmbeddingImageUrl, decode_fields, is_given
from gateway.dialects.json_body import decode
from gateway.dialects.sampling import invalid
from shared.errors import ServiceError
from shared.pb import embed_pb2 as pb
from shared.pb import worker_pb2


class ObjectItem(msgspec.Struct):
    """A text, an image, or both."""

    text: str | None = None
    image: EmbeddingImageUrl | str | None = None
    image_url: EmbeddingImageUrl | str | None = None


Item = str | ObjectItem


class Fields(msgspec.Struct):
    """The fields of both forms."""

    query: Item
    model: str | None = None
    top_n: int | None = None
    return_documents: bool | None = None
    return_text: bool | None = None
    instruction: str | None = None
    user: str | None = None


@dataclass(frozen=True)
class RerankBody:
    """A parsed body.

    Attributes:
        items: the documents, decoded.
        raw: the documents as JSON.
        is_tei: whether they were sent as `texts`.
    """

    fields: Fields
    items: Sequence[Item]
    raw: Sequence[msgspec.Raw]
    is_tei: bool


_SHAPE: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_FIELDS: Final = msgspec.json.Decoder(Fields)
_RAW: Final = msgspec.json.Decoder(list[msgspec.Raw])
_ITEM: Final = msgspec.json.Decoder(Item)


def parse(body: bytes) -> RerankBody:
    """Return the parsed body.

    Raises:
        ServiceError: a field is missing or of the wrong type.
    """
    shape = decode(_SHAPE, body)
    if not is_given(shape, "query"):
        raise ServiceError("invalid_request", '"query" must be provided', "query")
    if bytes(shape["query"])[:1] not in (b'"', b"{"):
        raise ServiceError("invalid_request", '"query" must be a string', "query")
    is_tei = not is_given(shape, "documents")
    raw = _list(shape.get("texts" if is_tei else "documents"))
    fields = decode_fields(_FIELDS, body)
    items = [_item(part, index) for index, part in enumerate(raw)]
    return RerankBody(fields, items, raw, is_tei)


def _list(given: msgspec.Raw | None) -> list[msgspec.Raw]:
    found = [] if given is None or bytes(given)[:1] != b"[" else _RAW.decode(given)
    if not found:
        message = '"documents" must be a non-empty string array'
        raise ServiceError("invalid_request", message, "documents")
    return found


def _item(raw: msgspec.Raw, index: int) -> Item:
    try:
        return decode(_ITEM, raw, f"documents[{index}]")
    except ServiceError as failure:
        message = f"invalid request body: {failure.message}"
        raise ServiceError(failure.code, message, failure.param) from None


def build(body: RerankBody, card: worker_pb2.ModelCard) -> pb.RerankRequest:
    """Return the request for a model.

    Raises:
        ServiceError: `invalid_request`, naming the field.
    """
    fields = body.fields
    if fields.top_n is not None and fields.top_n < 1:
        raise ServiceError("invalid_request", "`top_n` must be at least 1", "top_n")
    instruction = (fields.instruction or "").strip()
    if instruction and not card.encoder.takes_instruction:
        raise invalid("instruction", "is not supported: the loaded reranker is a cross-encoder")
    return pb.RerankRequest(
        query=_text(fields.query, "query"),
        documents=[_text(item, f"documents[{i}]") for i, item in enumerate(body.items)],
        instruction=instruction,
        arrival_ns=time.time_ns(),
    )


def _text(item: Item, where: str) -> str:
    text = item if isinstance(item, str) else item.text or ""
    if isinstance(item, ObjectItem) and (item.image or item.image_url):
        raise _misfit(where, "carries an image, but the loaded reranker does not accept images")
    if not text.strip():
        raise _misfit(where, "carries neither text nor an image")
    return text


def _misfit(where: str, sentence: str) -> ServiceError:
    # The reference quotes the first name only.
    name = f"`{where}`" if where == "query" else where
    return ServiceError("invalid_request", f"{name} {sentence}", where)


def render(body: RerankBody, model: str, reply: pb.RerankReply) -> bytes:
    """Return the response in the form of the request.

    Raises:
        ServiceError: there is not one valid score per document.
    """
    scores = _check(reply.scores, len(body.items))
    order = sorted(range(len(scores)), key=lambda index: (-scores[index], index))
    best = order[: body.fields.top_n]
    echoes = bool(body.fields.return_documents or body.fields.return_text)
    score_name, echo_name = ("score", "text") if body.is_tei else ("relevance_score", "document")
    results: list[dict[str, Any]] = [
        {"index": index, score_name: scores[index]}
        | ({echo_name: _echo(body, index)} if echoes else {})
        for index in best
    ]
    if body.is_tei:
        return orjson.dumps(results)
    usage = {"prompt_tokens": reply.prompt_tokens, "total_tokens": reply.prompt_tokens}
    return orjson.dumps({"model": model, "object": "list", "results": results, "usage": usage})


def _echo(body: RerankBody, index: int) -> object:
    """Return a document as the clients of its form read it: of Jina and Cohere as an object."""
    given = orjson.Fragment(bytes(body.raw[index]))
    is_text = isinstance(body.items[index], str)
    return {"text": given} if is_text and not body.is_tei else given


def _check(scores: Sequence[float], count: int) -> list[float]:
    if len(scores) != count:
        raise ServiceError("internal", f"rerank inference gave {len(scores)} scores for {count}")
    if not all(math.isfinite(score) and 0 <= score <= 1 for score in scores):
        raise ServiceError("internal", "rerank inference returned an invalid numeric result")
    return list(scores)
