"""Clients that stop taking an answer half way and stay connected.

Owns how long an answer of whichever kind waits for one, and that it is broken off then. Clients
that leave are aiohttp's to notice, and what stops coming is body.py's. Runs in the handler's task.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable
from typing import Final, TypeVar

from aiohttp import web

from gateway.http.answer import Handler

T = TypeVar("T")

# For tests; without it, the default.
LIMIT_S: Final = web.AppKey("stall_limit_s", float)
# A client that has taken nothing for this long is not coming back.
_DEFAULT_S: Final = 120.0
# Half of what a transport holds before it makes its writer wait: asyncio's and uvloop's default.
_ROOM_BYTES: Final = 32 * 1024


def has_room(request: web.Request, size_bytes: int) -> bool:
    """Return whether so much can be written without waiting for the client.

    Then there is nothing to limit, and no timer to set for each token of a stream.
    """
    transport = request.transport
    return transport is None or transport.get_write_buffer_size() + size_bytes < _ROOM_BYTES


async def deliver(request: web.Request, writing: Awaitable[T]) -> T:
    """Wait until a client has taken what is written, or enough of it to go on.

    Raises:
        ConnectionError: it takes nothing; its connection is closed.
    """
    try:
        async with asyncio.timeout(request.app.get(LIMIT_S, _DEFAULT_S)):
            return await writing
    except TimeoutError:
        _abort(request)
        raise ConnectionAbortedError("the client takes nothing any more") from None


@web.middleware
async def send_response(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Send what a handler has returned, which aiohttp would do without a limit."""
    response = await handler(request)
    # aiohttp goes on as if nothing had been sent, and finds out what is wrong for itself.
    with contextlib.suppress(ConnectionError):
        await deliver(request, _send(request, response))
    return response


async def _send(request: web.Request, response: web.StreamResponse) -> None:
    await response.prepare(request)
    await response.write_eof()


def _abort(request: web.Request) -> None:
    """Close a connection at once, and let the system forget what it holds for it."""
    if (transport := request.transport) is None:
        return
    if (sock := transport.get_extra_info("socket")) is not None:
        # Without lingering, closing means a reset: socket(7).
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
