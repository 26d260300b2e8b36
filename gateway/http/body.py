"""The bytes of a request body.

Owns the limits on size and on waiting for the next bytes; what the bytes mean is the dialects'
business (dialects/json_body.py). Runs in the handler's task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from aiohttp import http_exceptions, web

from gateway.http.decoding import decode, read_coding
from shared.errors import ServiceError

T = TypeVar("T")

# Longest wait for the next bytes of a body.
BODY_TIMEOUT_S: Final = web.AppKey("body_timeout_s", float)


async def read_body(request: web.Request, limit_bytes: int) -> bytes:
    """Return the body; refuse it as soon as its declared or counted size exceeds the limit.

    Raises:
        ServiceError: `payload_too_large`, or `invalid_request` when the transfer coding is invalid
            or no data arrives for too long.
        HTTPUnsupportedMediaType: its content coding is unknown.
    """
    coding = read_coding(request)
    if (request.content_length or 0) > limit_bytes:
        raise too_large()
    body = bytearray()
    try:
        while chunk := await await_piece(request, request.content.readany()):
            body += chunk
            if len(body) > limit_bytes:
                raise too_large()
    except (web.RequestPayloadError, http_exceptions.HttpProcessingError) as failure:
        raise ServiceError("invalid_request", "The body's transfer coding is invalid.") from failure
    if not coding:
        return bytes(body)
    decoded = await asyncio.to_thread(decode, bytes(body), coding, limit_bytes)
    if decoded is None:
        raise too_large()
    return decoded


async def await_piece(request: web.Request, piece: Awaitable[T]) -> T:
    """Return the next piece of a body.

    Raises:
        ServiceError: `invalid_request`, no data arrived in time.
    """
    timeout_s = request.app[BODY_TIMEOUT_S]
    try:
        async with asyncio.timeout(timeout_s):
            return await piece
    except TimeoutError:
        sentence = f"The body is incomplete: no data arrived for {timeout_s:g} s."
        raise ServiceError("invalid_request", sentence) from None


def too_large() -> ServiceError:
    return ServiceError("payload_too_large", "Request body too large.")
