"""Clients that stop reading a response and stay connected.

Owns the time limit for writing to such a client, after which its connection is aborted. aiohttp
detects clients that disconnect, body.py those that stop sending. Runs in the handler's task.
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

# Overrides the default in tests.
LIMIT_S: Final = web.AppKey("stall_limit_s", float)
# A client that has taken nothing for this long is not coming back.
_DEFAULT_S: Final = 120.0
# Half of the size at which asyncio and uvloop make the writer wait.
_ROOM_BYTES: Final = 32 * 1024


def has_room(request: web.Request, size_bytes: int) -> bool:
    """Return whether this much can be written without waiting for the client.

    Then the write needs no time limit, which saves a timer per token.
    """
    transport = request.transport
    return transport is None or transport.get_write_buffer_size() + size_bytes < _ROOM_BYTES


async def deliver(request: web.Request, writing: Awaitable[T]) -> T:
    """Wait until the client has read enough for the write to return.

    Raises:
        ConnectionError: the client stalled; its connection is aborted.
    """
    try:
        async with asyncio.timeout(request.app.get(LIMIT_S, _DEFAULT_S)):
            return await writing
    except TimeoutError:
        _abort(request)
        raise ConnectionAbortedError("the client has stopped reading") from None


@web.middleware
async def send_response(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Send the response of a handler; aiohttp would do so without a time limit."""
    response = await handler(request)
    # aiohttp then ends the response itself, and handles the connection error.
    with contextlib.suppress(ConnectionError):
        await deliver(request, _send(request, response))
    return response


async def _send(request: web.Request, response: web.StreamResponse) -> None:
    await response.prepare(request)
    await response.write_eof()


def _abort(request: web.Request) -> None:
    """Close a connection at once and discard its unsent data."""
    if (transport := request.transport) is None:
        return
    if (sock := transport.get_extra_info("socket")) is not None:
        # With a linger time of 0, closing resets the connection: socket(7).
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
