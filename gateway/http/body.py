"""The bytes of a request body, bounded, and their reading into a declared shape.

Owns the limits on size and on waiting for the next bytes, and every way in which bytes fail to be
the JSON that was declared; each one is `invalid_request` with the JSON path of what is wrong. Runs
in the handler's task.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Iterable
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import http_exceptions, web

from shared.errors import ServiceError

T = TypeVar("T")

# msgspec ends its messages with the place: "… - at `$.messages[0].role`".
_PLACE: Final = re.compile(
    r"^(?P<what>.*?)(?: - at (?:`key` in )?`\$\.?(?P<path>.*)`)?$", re.DOTALL
)
_MISSING: Final = re.compile(r"Object missing required field `(?P<name>.*)`")
_MESSAGE_CHARS: Final = 300
# Deeper values cost stack in every template engine and JSON reader they pass.
_MAX_DEPTH: Final = 64


# How long a client may take for the next bytes of a body.
BODY_TIMEOUT_S: Final = web.AppKey("body_timeout_s", float)


async def read_body(request: web.Request, limit_bytes: int) -> bytes:
    """Return the body; a declared or counted size over the limit is refused while reading.

    Raises:
        ServiceError: `payload_too_large`, or `invalid_request` when its coding is broken or it
            stops coming.
    """
    if (request.content_length or 0) > limit_bytes:
        raise too_large()
    body = bytearray()
    try:
        while chunk := await arriving(request, request.content.readany()):
            body += chunk
            if len(body) > limit_bytes:
                raise too_large()
    except (web.RequestPayloadError, http_exceptions.HttpProcessingError) as failure:
        raise ServiceError("invalid_request", "The body's transfer coding is broken.") from failure
    return bytes(body)


async def arriving(request: web.Request, piece: Awaitable[T]) -> T:
    """Return the next piece of a body.

    Raises:
        ServiceError: `invalid_request`, when nothing comes.
    """
    start_timeout_s = request.app[BODY_TIMEOUT_S]
    try:
        async with asyncio.timeout(start_timeout_s):
            return await piece
    except TimeoutError:
        sentence = f"The body is incomplete: nothing more came for {start_timeout_s:g} s."
        raise ServiceError("invalid_request", sentence) from None


def too_large() -> ServiceError:
    """Return the refusal of a body over the limit."""
    return ServiceError("payload_too_large", "Request body too large.")


def decode(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw, where: str = "") -> T:
    """Return the value JSON text stands for.

    Args:
        where: JSON path of `data` in the whole body.

    Raises:
        ServiceError: `invalid_request`, with the path of what is wrong in `param`.
    """
    try:
        # Fields that are skipped or kept as text are not checked by the decoder.
        str(data, "utf-8")
        return decoder.decode(data)
    except msgspec.ValidationError as failure:
        raise _misfit(str(failure), where) from None
    except msgspec.DecodeError as failure:
        raise ServiceError("invalid_request", f"The body is not valid JSON: {failure}.") from None
    except UnicodeDecodeError:
        raise ServiceError("invalid_request", "The body is not valid UTF-8.") from None
    except RecursionError:
        raise ServiceError("invalid_request", "The body is nested too deeply.") from None


def compact(raw: msgspec.Raw) -> bytes:
    """Return JSON text without white space, in the order of its keys: it fits on one line."""
    return msgspec.json.format(bytes(raw), indent=-1)


def unknown_keys(data: bytes, known: Iterable[str]) -> list[str]:
    """Return the top-level keys of a JSON object that are not among `known`."""
    return sorted(set(msgspec.json.decode(data, type=dict[str, msgspec.Raw])) - set(known))


def depth(value: Any, limit: int) -> int:
    """Return how deeply objects and arrays are nested, the root being 0; stops past `limit`."""
    level, deepest = [value], 0
    while level := [inner for outer in level for inner in _containers(outer)]:
        deepest += 1
        if deepest > limit:
            break
    return deepest


def check_depth(value: Any, path: str) -> None:
    """Refuse a value that is nested beyond reason.

    Raises:
        ServiceError: `invalid_request`.
    """
    if isinstance(value, dict | list) and depth(value, _MAX_DEPTH) > _MAX_DEPTH:
        raise ServiceError("invalid_request", f"{path} is nested too deeply", path)


def _containers(value: Any) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value
    return [item for item in inner if isinstance(item, dict | list)]


def _misfit(message: str, where: str) -> ServiceError:
    match = _PLACE.match(message)
    what, path = (match["what"], match["path"] or "") if match else (message, "")
    if missing := _MISSING.match(what):
        path = f"{path}.{missing['name']}" if path else missing["name"]
        what = "is required"
    path = f"{where}.{path}" if where and path and path[0] != "[" else where + path
    text = f"{path}: {what}" if path else what
    return ServiceError("invalid_request", text[:_MESSAGE_CHARS], path[:_MESSAGE_CHARS] or None)
