"""The events of one running request, between the shared Watch and the request's handler.

`put` never waits, so a slow client does not delay the Watch reader; unread deltas are merged, and
above the byte limit the request fails. Owns the token ids of one attempt, from which a resume
starts. Runs on the gateway's event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from shared.errors import ServiceError, from_message
from shared.pb import text_pb2 as pb

# Text alone never reaches this; logprobs of a stalled client do.
LIMIT_BYTES: Final = 4 * 1024 * 1024


class Mailbox:
    """The unread events of one attempt of one request.

    Args:
        key: the request's id on the Watch.
        attempt: frames of other attempts are ignored.
        opened_s: current time on the event loop's clock.
        on_end: called once, after the last event.
        on_first_token: called once.

    Attributes:
        ended: no more events are accepted.
        running: the worker may still run the request.
    """

    def __init__(
        self,
        key: int,
        attempt: int,
        opened_s: float,
        *,
        on_end: Callable[[], None],
        on_first_token: Callable[[], None],
        limit_bytes: int = LIMIT_BYTES,
    ) -> None:
        self.key = key
        self.attempt = attempt
        self.opened_s = opened_s
        self.token_ids: list[int] = []
        self.started_s: float | None = None
        self.first_token_s: float | None = None
        self.last_token_s: float | None = None
        self.ended = False
        self.running = True
        self._on_end = on_end
        self._on_first_token = on_first_token
        self._limit_bytes = limit_bytes
        self._waiting: list[pb.Event | list[str]] = []
        self._waiting_bytes = 0
        self.failure: ServiceError | None = None
        self._reader: asyncio.Future[None] | None = None

    @property
    def drained(self) -> bool:
        """Whether the request has finished and all events were taken."""
        return self.ended and self.failure is None and not self._waiting

    def put(self, sequence: pb.SequenceFrame, now_s: float) -> None:
        """Add the output of one engine step. Ignored once ended."""
        if self.ended:
            return
        if ids := sequence.token_ids:
            self.token_ids.extend(ids)
            self.last_token_s = now_s
            if self.first_token_s is None:
                self.first_token_s = now_s
                self._on_first_token()
        events = sequence.events
        if not events:
            return
        if self.started_s is None and any(event.HasField("started") for event in events):
            self.started_s = now_s
        for event in events:
            self._append(event)
        self._waiting_bytes += sequence.ByteSize()
        last = events[-1]
        if last.HasField("failed"):
            self._waiting.pop()
            self.lose(from_message(last.failed.error))
        elif last.HasField("finished"):
            self.running = False
            self._end()
        elif self._waiting_bytes > self._limit_bytes:
            self.fail(ServiceError("cancelled", "The client read the stream too slowly."))
        self._wake()

    def fail(self, error: ServiceError) -> None:
        """End with an error, which `take` raises after the events before it."""
        if not self.ended:
            self.failure = error
            self._end()
            self._wake()

    def lose(self, error: ServiceError) -> None:
        """End with an error; the worker no longer runs the request."""
        self.running = False
        self.fail(error)

    async def take(self) -> list[pb.Event]:
        """Wait for at least one event; return all unread events in order.

        Raises:
            ServiceError: the request failed; all events before that were taken.
        """
        while not self._waiting:
            if self.failure is not None:
                raise self.failure
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        items, self._waiting = self._waiting, []
        self._waiting_bytes = 0
        return [_text_event(item) if isinstance(item, list) else item for item in items]

    def _append(self, event: pb.Event) -> None:
        """Add an event; adjacent events of plain text are merged."""
        waiting = self._waiting
        if waiting and _is_plain_text(event):
            last = waiting[-1]
            if isinstance(last, list):
                last.append(event.delta.text)
                return
            if _is_plain_text(last):
                waiting[-1] = [last.delta.text, event.delta.text]
                return
        waiting.append(event)

    def _end(self) -> None:
        self.ended = True
        self._on_end()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


def _is_plain_text(event: pb.Event) -> bool:
    # Token infos and ids belong to one position of the stream each and are not merged.
    delta = event.delta
    return event.HasField("delta") and not (delta.infos or delta.ids or delta.HasField("timings"))


def _text_event(pieces: list[str]) -> pb.Event:
    return pb.Event(delta=pb.Delta(text="".join(pieces)))
