"""A response body that is sent while it is produced.

The status line is sent with the first bytes. A failure after that aborts the connection, so that
the client does not take a partial file for a complete one. Runs in the handler's task.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from gateway.http.sse import register_stream
from gateway.http.stall import deliver
from shared.errors import ServiceError


class ByteStream:
    """One file that is being sent.

    Args:
        headers: of the response.
    """

    def __init__(self, request: web.Request, headers: Mapping[str, str]) -> None:
        self._request = request
        self._response = web.StreamResponse(headers=headers)
        register_stream(request, self)

    @property
    def opened(self) -> bool:
        """Whether the status line was sent."""
        return self._response.prepared

    async def send(self, data: bytes) -> None:
        """Write, and wait while the client's buffer is full.

        Raises:
            ConnectionError: the client disconnected or stalled.
        """
        if not self.opened:
            await self._response.prepare(self._request)
        await deliver(self._request, self._response.write(data))

    async def fail(self, error: ServiceError) -> web.StreamResponse:  # noqa: ARG002 - can't be sent
        """Abort the connection."""
        if self._request.transport is not None:
            self._request.transport.abort()
        return self._response

    async def finish(self) -> web.StreamResponse:
        """End the response and return it."""
        if not self.opened:
            await self._response.prepare(self._request)
        await deliver(self._request, self._response.write_eof())
        return self._response
