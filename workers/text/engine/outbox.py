"""Frames between the engine and the Watch streams of gateways.

Owns a bounded buffer per gateway. A gateway that does not read loses its requests; others are not
affected. Runs on the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from shared.pb import text_pb2 as pb
from workers.text.engine.active_requests import Frames

# A gateway reads within milliseconds; one that leaves this much unread hangs.
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
        self._changed = asyncio.Event()

    def put(self, step: int, sequences: Iterable[pb.SequenceFrame]) -> None:
        """Add the frames of a step to those that have not been read."""
        self._frame.step = step
        for sequence in sequences:
            self._bytes += sequence.ByteSize()
            self._frame.sequences.append(sequence)
        if self._bytes > MAX_WAITING_BYTES:
            self.close("overflow")
        self._changed.set()

    def close(self, reason: str) -> None:
        """End the stream; unread frames are dropped."""
        self.closed = self.closed or reason
        self._frame, self._bytes = pb.StepFrame(), 0
        self._changed.set()

    async def take(self) -> pb.StepFrame:
        """Wait for frames and return all of them as one; an empty one once closed."""
        await self._changed.wait()
        self._changed.clear()
        frame, self._frame, self._bytes = self._frame, pb.StepFrame(), 0
        return frame


class Outbox:
    """All Watch streams of a worker.

    Args:
        on_closed: called with the id of a gateway that no stream delivers to any more.
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
        """Return whether a stream of this gateway is open."""
        return gateway_id in self._mails

    def deliver(self, step: int, frames: Frames) -> None:
        """Put the frames of a step into the streams of their gateways."""
        for gateway_id, sequences in frames.items():
            mail = self._mails.get(gateway_id)
            if mail is not None:
                mail.put(step, sequences)
                if mail.closed:
                    self.close(mail, mail.closed)
