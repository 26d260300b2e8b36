"""Embeddings in the forms of OpenAI and of llama-server's own routes.

Owns the fields of the body, the order of the checks, and both forms of the response. `parse` checks
what needs no model, `build` the rest against the model card. Pure.
"""

from __future__ import annotations

import binascii
import time
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, TypeVar

import msgspec
import orjson

from gateway.dialects.json_body import decode
from gateway.dialects.sampling import invalid
from shared.errors import ServiceError
from shared.pb import embed_pb2 as pb
from shared.pb import worker_pb2

# Bytes of all vectors of one request; about ten times as many as JSON.
_MAX_VECTOR_BYTES: Final = 64 * 1024 * 1024
_FLOAT_BYTES: Final = 4
_MAX_NORM: Final = 2**31 - 1
_NO_NORM: Final = -1

T = TypeVar("T")
TokenId = Annotated[int, msgspec.Meta(ge=0)]


class TextItem(msgspec.Struct, tag_field="type", tag="text"):
    text: str


class EmbeddingImageUrl(msgspec.Struct):
    """The address of an image."""

    url: str


class ImageItem(msgspec.Struct, tag_field="type", tag="image_url"):
    """An image; some clients send the address without an object around it."""

    image_url: EmbeddingImageUrl | str


Item = str | list[TokenId] | TextItem | ImageItem
Input = str | list[str | TokenId | list[TokenId] | TextItem | ImageItem]


class EmbeddingsBody(msgspec.Struct):
    """The body; `input` may have been sent as `content`."""

    input: Input
    model: str | None = None
    encoding_format: str | None = None
    dimensions: int | None = None
    instruction: str | None = None
    embd_normalize: int | None = None
    user: str | None = None


_SHAPE: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BODY: Final = msgspec.json.Decoder(EmbeddingsBody)


def parse(body: bytes, *, is_native: bool = False) -> EmbeddingsBody:
    """Return the fields of a body.

    Args:
        is_native: `content` is accepted for `input`.

    Raises:
        ServiceError: a field is missing or of the wrong type.
    """
    shape = decode(_SHAPE, body)
    names = ("input", "content") if is_native else ("input",)
    given = next((name for name in names if is_given(shape, name)), None)
    if given is None:
        raise ServiceError("invalid_request", '"input" or "content" must be provided', "input")
    if given != "input":
        shape["input"] = shape.pop(given)
        body = msgspec.json.encode(shape)
    return decode_fields(_BODY, body)


def is_given(shape: dict[str, msgspec.Raw], name: str) -> bool:
    """Return whether a field is present and not null."""
    return name in shape and bytes(shape[name]) != b"null"


def decode_fields(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Return the fields of a body that is known to be valid JSON.

    Raises:
        ServiceError: a field is of the wrong type.
    """
    try:
        return decode(decoder, body)
    except ServiceError as failure:
        message = f"invalid request body: {failure.message}"
        raise ServiceError(failure.code, message, failure.param) from None


def build(fields: EmbeddingsBody, card: worker_pb2.ModelCard) -> pb.EmbedRequest:
    """Return the request for a model.

    Raises:
        ServiceError: `invalid_request`, naming the field.
    """
    if fields.encoding_format not in (None, "", "float", "base64"):
        raise invalid("encoding_format", "must be float or base64")
    width = card.encoder.dimensions
    if fields.dimensions is not None and not 1 <= fields.dimensions <= width:
        raise invalid("dimensions", f"must be between 1 and {width}")
    request = pb.EmbedRequest(
        dimensions=fields.dimensions,
        instruction=(fields.instruction or "").strip(),
        arrival_ns=time.time_ns(),
    )
    for index, item in enumerate(_split(fields.input, width)):
        _add(request, index, item, card.vocab_tokens)
    if fields.embd_normalize is not None:
        if not _NO_NORM <= fields.embd_normalize <= _MAX_NORM:
            raise invalid("embd_normalize", "must be -1 or more")
        request.normalize = fields.embd_normalize
    return request


def _split(given: Input, width: int) -> list[Item]:
    """Return the items of an input; a plain list of token ids is one item."""
    items: list[Any] = [given] if isinstance(given, str) else given
    if not items:
        raise ServiceError("invalid_request", "`input` must not be empty", "input")
    if isinstance(items[0], int):
        items = [items]
    most = _MAX_VECTOR_BYTES // (_FLOAT_BYTES * max(width, 1))
    if len(items) > most:
        raise invalid("input", f"has {len(items)} items; at most {most} fit into one response")
    return items


def _add(request: pb.EmbedRequest, index: int, item: Any, vocab_tokens: int) -> None:
    """Check an item and add it to a request."""
    where = f"input[{index}]"
    if isinstance(item, ImageItem):
        raise _misfit(where, "is an image, but the loaded embedding model does not accept images")
    if isinstance(item, TextItem):
        item = item.text
    if isinstance(item, str):
        if not item:
            raise _misfit(where, "is an empty string")
        request.items.add(text=item)
        return
    if not isinstance(item, list) or not all(isinstance(token, int) for token in item):
        raise _misfit(where, "mixes token ids with other items")
    if not item:
        raise _misfit(where, "is an empty token list")
    if max(item) >= vocab_tokens:
        token = next(token for token in item if token >= vocab_tokens)
        raise _misfit(where, f"contains token id {token}, which is >= vocab_size {vocab_tokens}")
    request.items.add(tokens=pb.EmbedRequest.Tokens(ids=item))


def _misfit(where: str, sentence: str) -> ServiceError:
    return ServiceError("invalid_request", f"{where} {sentence}", where)


def render(fields: EmbeddingsBody, model: str, reply: pb.EmbedReply) -> Iterator[bytes]:
    """Yield OpenAI's response, one vector at a time."""
    is_base64 = fields.encoding_format == "base64"
    yield b'{"object":"list","data":['
    for index, row in enumerate(read_rows(reply)):
        vector: object = row.cast("f").tolist()
        if is_base64:
            vector = binascii.b2a_base64(row, newline=False).decode()
        entry = {"object": "embedding", "index": index, "embedding": vector}
        yield b"," * (index > 0) + orjson.dumps(entry)
    usage = {"prompt_tokens": reply.prompt_tokens, "total_tokens": reply.prompt_tokens}
    yield b"]," + orjson.dumps({"model": model, "usage": usage})[1:]


def render_native(reply: pb.EmbedReply) -> Iterator[bytes]:
    """Yield llama-server's response, one vector at a time."""
    yield b"["
    for index, row in enumerate(read_rows(reply)):
        entry = {"index": index, "embedding": [row.cast("f").tolist()]}
        yield b"," * (index > 0) + orjson.dumps(entry)
    yield b"]"


def read_rows(reply: pb.EmbedReply) -> Sequence[memoryview]:
    """Return the bytes of each vector."""
    data, size = memoryview(reply.vectors), _FLOAT_BYTES * reply.dimensions
    return [data[begin : begin + size] for begin in range(0, len(data), size)]
