"""Frames on their way to the gateways that watch.

The one place where the engine thread hands data to the event loop. Per gateway a bounded pile of
frames waits for its Watch stream; a gateway that does not read loses its requests, nobody else
notices. Runs on the event loop but for `publish`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from shared.pb import text_pb2 as pb
from workers.text.engine.active_requests import Frames

# A gateway reads within milliseconds. This much unread means that it hangs.
MAX_WAITING_BYTES = 32 * 1024 * 1024


class Mail:
    """The frames of one Watch stream.

    Attributes:
        closed: why nothing more comes: "superseded" or "overflow"; empty while open.
    """

    def __init__(self, gateway_id: str) -> None:
        self.gateway_id = gateway_id
        self.closed = ""
        self._frame = pb.StepFrame()
        self._bytes = 0
        self._news = asyncio.Event()

    def put(self, step: int, sequences: Iterable[pb.SequenceFrame]) -> None:
        """Add what a step did, merging it with what has not been read."""
        self._frame.step = step
        for sequence in sequences:
            self._bytes += sequence.ByteSize()
            self._frame.sequences.append(sequence)
        if self._bytes > MAX_WAITING_BYTES:
            self.close("overflow")
        self._news.set()

    def close(self, reason: str) -> None:
        """End the stream; what waits is dropped."""
        self.closed = self.closed or reason
        self._frame, self._bytes = pb.StepFrame(), 0
        self._news.set()

    async def take(self, timeout_s: float) -> pb.StepFrame:
        """Wait for news and return everything that waits; an empty frame after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        except TimeoutError:
            pass
        self._news.clear()
        frame, self._frame, self._bytes = self._frame, pb.StepFrame(), 0
        return frame


class Outbox:
    """All Watch streams of a worker.

    Args:
        on_closed: called with a gateway id whose requests nobody listens to any more.
    """

    def __init__(self, on_closed: Callable[[str], None]) -> None:
        self._on_closed = on_closed
        self._mails: dict[str, Mail] = {}

    def open(self, gateway_id: str) -> Mail:
        """Begin a stream; an older one of the same gateway is superseded."""
        older = self._mails.get(gateway_id)
        if older is not None:
            self.close(older, "superseded")
        mail = self._mails[gateway_id] = Mail(gateway_id)
        return mail

    def close(self, mail: Mail, reason: str) -> None:
        """End a stream and drop its gateway's requests, unless a newer stream has them."""
        mail.close(reason)
        if self._mails.get(mail.gateway_id) is mail:
            del self._mails[mail.gateway_id]
            self._on_closed(mail.gateway_id)

    def watched(self, gateway_id: str) -> bool:
        """Return whether somebody reads this gateway's frames."""
        return gateway_id in self._mails

    def deliver(self, step: int, frames: Frames) -> None:
        """Put the frames of a step where they belong; every watcher hears that it is done."""
        for mail in list(self._mails.values()):
            mail.put(step, frames.get(mail.gateway_id, ()))
            if mail.closed:
                self.close(mail, mail.closed)
