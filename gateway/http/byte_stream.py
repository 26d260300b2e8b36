"""A file that is sent while it is made, on one HTTP response.

Owns the moment at which the status line goes out, with the first bytes, and how such an answer
fails: its connection breaks, so that nobody takes what there is for the whole. Runs in the
handler's task.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from gateway.http.sse import register_stream
from gateway.http.stall import deliver
from shared.errors import ServiceError


class ByteStream:
    """One file on its way.

    Args:
        headers: what it is.
    """

    def __init__(self, request: web.Request, headers: Mapping[str, str]) -> None:
        self._request = request
        self._response = web.StreamResponse(headers=headers)
        register_stream(request, self)

    @property
    def opened(self) -> bool:
        """Whether the status line has gone out."""
        return self._response.prepared

    async def send(self, data: bytes) -> None:
        """Write, and wait while the client is behind.

        Raises:
            ConnectionError: it is gone, or too far behind.
        """
        if not self.opened:
            await self._response.prepare(self._request)
        await deliver(self._request, self._response.write(data))

    async def fail(self, error: ServiceError) -> web.StreamResponse:  # noqa: ARG002 - no place for it
        """Break the connection."""
        if self._request.transport is not None:
            self._request.transport.abort()
        return self._response

    async def finish(self) -> web.StreamResponse:
        """Write the end and return the response."""
        if not self.opened:
            await self._response.prepare(self._request)
        await deliver(self._request, self._response.write_eof())
        return self._response
