"""A server-sent event stream on one HTTP response.

Owns the headers, the signs of life that keep a silent connection open, and the moment at which the
status line goes out: with the first bytes, or after some patience without any. What is in the
stream is the dialects' business. Runs in the handler's task plus one timer task per stream.
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
    # nginx would collect the stream before passing it on.
    "X-Accel-Buffering": "no",
}
_COMMENT: Final = b": ping\n\n"


class EventStream:
    """Use as an async context manager.

    Args:
        render_failure: how this stream tells that it has failed, to its very end.
        ping_s: seconds of silence after which a sign of life is sent; None for never.
        start_timeout_s: seconds after which a stream without any bytes is opened by one; what
            fails later is told in the stream.
        render_ping: what this stream's sign of life is; nothing for a comment.
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
        """Whether the status line has gone out, so that errors belong in the stream."""
        return self._response is not None

    async def send(self, data: bytes) -> None:
        """Write, and wait while the client is behind.

        Raises:
            ConnectionError: it is gone, or too far behind.
        """
        response = self._response or await self._open()
        self._written_s = self._now_s()
        if has_room(self._request, len(data)):
            await response.write(data)
        else:
            await deliver(self._request, response.write(data))

    async def fail(self, error: ServiceError) -> web.StreamResponse:
        """Tell that the stream has failed, and end it."""
        await self.send(self._render_failure(error))
        return await self.finish()

    async def finish(self) -> web.StreamResponse:
        """Write the end and return the response."""
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
        # A client that is gone ends the handler, not this task.
        with contextlib.suppress(ConnectionError):
            while (silence_s := self._allowed_silence_s()) is not None:
                left_s = self._written_s + silence_s - self._now_s()
                if left_s <= 0:
                    await self.send(self._render_ping() or _COMMENT)
                else:
                    # What is allowed changes when the stream opens: look again by then.
                    await asyncio.sleep(min(left_s, self._ping_s or left_s))

    def _allowed_silence_s(self) -> float | None:
        return self._ping_s if self.opened else self._start_timeout_s


class Stream(Protocol):
    """An answer that is written piece by piece."""

    @property
    def opened(self) -> bool:
        """Whether the status line has gone out."""

    async def fail(self, error: ServiceError) -> web.StreamResponse:
        """End it in the way by which its client sees that it has failed."""


_KEY: Final = web.RequestKey("stream", Stream)


def register_stream(request: web.Request, stream: Stream) -> None:
    """Say how a request is being answered, so that the rim can end it."""
    request[_KEY] = stream


def open_stream(request: web.Request) -> Stream | None:
    """Return the stream that a request is being answered with, once its status line is out."""
    stream = request.get(_KEY)
    return stream if stream is not None and stream.opened else None
