"""The bodies and responses of /tokenize and /detokenize. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gateway.dialects.json_body import decode
from gateway.dialects.llama import wire
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb

_TOKENIZE: Final = msgspec.json.Decoder(wire.TokenizeBody)
_DETOKENIZE: Final = msgspec.json.Decoder(wire.DetokenizeBody)
_UINT32_MAX: Final = 2**32 - 1
# Each becomes a protobuf message.
MAX_PIECES: Final = 2**18


def parse_tokenize(body: bytes) -> tuple[pb.TokenizeRequest, str | None]:
    """Return the request and the model's name.

    Raises:
        ServiceError: `invalid_request`.
    """
    fields = decode(_TOKENIZE, body)
    request = pb.TokenizeRequest(
        pieces=parse_pieces(fields.content),
        add_special=bool(fields.add_special),
        parse_special=fields.parse_special is not False,
        with_pieces=bool(fields.with_pieces),
    )
    return request, fields.model


def parse_pieces(content: Any) -> list[pb.TokenizePiece]:
    """Return the pieces of a text, or of an array of texts and token ids."""
    if content is None:
        return []
    if not isinstance(content, str | list):
        raise _refusal("content must be a string or an array", "content")
    items = [content] if isinstance(content, str) else content
    if len(items) > MAX_PIECES:
        raise _refusal(f"content has more than {MAX_PIECES} elements", "content")
    return [_piece(item, f"content[{index}]") for index, item in enumerate(items)]


def describe_tokens(reply: pb.TokenizeReply, *, with_pieces: bool) -> dict[str, Any]:
    """Return the response; a piece that is not valid UTF-8 is an array of bytes."""
    if not with_pieces:
        return {"tokens": list(reply.ids)}
    pairs = zip(reply.ids, reply.pieces, strict=True)
    return {"tokens": [{"id": token, "piece": _text(piece)} for token, piece in pairs]}


def parse_detokenize(body: bytes) -> tuple[pb.DetokenizeRequest, str | None]:
    """Return the request, whose ids may be out of the vocabulary, and the model's name.

    Raises:
        ServiceError: `invalid_request`.
    """
    fields = decode(_DETOKENIZE, body)
    return pb.DetokenizeRequest(ids=fields.tokens or ()), fields.model


def _piece(item: Any, path: str) -> pb.TokenizePiece:
    if isinstance(item, str):
        return pb.TokenizePiece(text=item)
    if isinstance(item, int) and not isinstance(item, bool) and 0 <= item <= _UINT32_MAX:
        return pb.TokenizePiece(id=item)
    raise _refusal(f"{path} must be a string or a token id", path)


def _text(piece: bytes) -> str | list[int]:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return list(piece)


def _refusal(sentence: str, path: str) -> ServiceError:
    return ServiceError("invalid_request", f"Tokenization error: {sentence}", path)
