"""A server-sent event stream on one HTTP response.

Owns the headers, the keep-alives of a silent stream, and the time of the status line: it is sent
with the first bytes, or after `start_timeout_s` without any. Dialects render the events. Runs in
the handler's task plus one timer task per stream.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, Protocol, Self

from aiohttp import web

from gateway.http.stall import deliver, has_room
from shared.errors import ServiceError

HEADERS: Final = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache",
    # Turns off nginx's buffering of the response.
    "X-Accel-Buffering": "no",
}
_COMMENT: Final = b": ping\n\n"


class EventStream:
    """Use as an async context manager.

    Args:
        render_failure: returns the last bytes of a stream that failed.
        ping_s: seconds of silence after which a keep-alive is sent; None for never.
        start_timeout_s: seconds without data after which a keep-alive opens the stream; later
            failures are reported in the stream.
        render_ping: returns a keep-alive; empty bytes stand for an SSE comment.
    """

    def __init__(
        self,
        request: web.Request,
        render_failure: Callable[[ServiceError], bytes],
        ping_s: float | None,
        start_timeout_s: float,
        render_ping: Callable[[], bytes] = bytes,
    ) -> None:
        self._request = request
        self._render_failure = render_failure
        self._render_ping = render_ping
        self._ping_s = ping_s
        self._start_timeout_s = start_timeout_s
        self._response: web.StreamResponse | None = None
        self._opening = asyncio.Lock()
        self._now_s = asyncio.get_running_loop().time
        self._written_s = self._now_s()
        self._timer: asyncio.Task[None] | None = None
        register_stream(request, self)

    async def __aenter__(self) -> Self:
        self._timer = asyncio.create_task(self._send_pings())
        return self

    async def __aexit__(self, *_exception: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    @property
    def opened(self) -> bool:
        """Whether the status line was sent; from then on errors are reported in the stream."""
        return self._response is not None

    async def send(self, data: bytes) -> None:
        """Write, and wait while the client's buffer is full.

        Raises:
            ConnectionError: the client disconnected or stalled.
        """
        response = self._response or await self._open()
        self._written_s = self._now_s()
        if has_room(self._request, len(data)):
            await response.write(data)
        else:
            await deliver(self._request, response.write(data))

    async def fail(self, error: ServiceError) -> web.StreamResponse:
        """Report a failure in the stream and end it."""
        await self.send(self._render_failure(error))
        return await self.finish()

    async def finish(self) -> web.StreamResponse:
        """End the response and return it."""
        response = self._response or await self._open()
        await deliver(self._request, response.write_eof())
        return response

    async def _open(self) -> web.StreamResponse:
        async with self._opening:
            if self._response is None:
                response = web.StreamResponse(headers=HEADERS)
                await response.prepare(self._request)
                self._response = response
            return self._response

    async def _send_pings(self) -> None:
        # A disconnected client ends the handler, not this task.
        with contextlib.suppress(ConnectionError):
            while (silence_s := self._allowed_silence_s()) is not None:
                left_s = self._written_s + silence_s - self._now_s()
                if left_s <= 0:
                    await self.send(self._render_ping() or _COMMENT)
                else:
                    # The limit changes when the stream opens, so check at least every ping_s.
                    await asyncio.sleep(min(left_s, self._ping_s or left_s))

    def _allowed_silence_s(self) -> float | None:
        return self._ping_s if self.opened else self._start_timeout_s


class Stream(Protocol):
    """A response that is written in pieces."""

    @property
    def opened(self) -> bool:
        """Whether the status line was sent."""

    async def fail(self, error: ServiceError) -> web.StreamResponse:
        """End it so that the client sees the failure."""


_KEY: Final = web.RequestKey("stream", Stream)


def register_stream(request: web.Request, stream: Stream) -> None:
    """Register the stream of a request, so that the error boundary can end it."""
    request[_KEY] = stream


def open_stream(request: web.Request) -> Stream | None:
    """Return the stream of a request if its status line was sent."""
    stream = request.get(_KEY)
    return stream if stream is not None and stream.opened else None
