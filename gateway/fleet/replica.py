"""One text worker process as the gateway sees it, and the places of requests at it.

Owns its load: what the last heartbeat said, corrected by the gateway's own requests since. The
conversation itself is text_client.py's, the queue admission.py's. Runs on the gateway's event
loop; time is injected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gateway.fleet.mailbox import Mailbox
from gateway.fleet.text_client import TextClient
from gateway.fleet.worker_watch import WorkerWatch
from shared.errors import ServiceError
from shared.pb import common_pb2 as common
from shared.pb import text_pb2 as pb
from shared.pb import worker_pb2


class Ticket:
    """One request's place: first in the queue, then at a replica.

    Attributes:
        resumed: it has been at a worker before, and goes ahead of what waits.
        isolate: it is suspected of killing workers.
        box: where its events arrive once it is at a replica.
    """

    def __init__(self, request: pb.GenerateRequest, *, resumed: bool, isolate: bool) -> None:
        self.priority = request.priority or common.PRIORITY_NORMAL
        self.arrival_ns = request.arrival_ns
        self.resumed = resumed
        self.isolate = isolate
        self.since_s = 0.0
        self.box: Mailbox | None = None
        self.replica: Replica | None = None
        self.placed: asyncio.Future[Replica] = asyncio.get_running_loop().create_future()

    @property
    def in_batch(self) -> bool:
        """Whether its prefill has begun and it has not ended."""
        return self.box is not None and self.box.started_s is not None and not self.box.ended

    @property
    def suspect(self) -> bool:
        """Whether it is isolated and has not made progress in this attempt."""
        return self.isolate and (self.box is None or not self.box.token_ids)

    def fail(self, error: ServiceError) -> None:
        """End the waiting, or the attempt that runs, with an error."""
        if self.box is not None:
            self.box.fail(error)
        elif not self.placed.done():
            self.placed.set_exception(error)

    def forget_failure(self) -> None:
        """Keep asyncio from reporting a failure that came when nobody waited any more."""
        if self.placed.done() and not self.placed.cancelled():
            self.placed.exception()


class Replica(WorkerWatch):
    """One text worker process: its client and the last it said. Observes its own client."""

    def __init__(
        self,
        address: str,
        gateway_id: str,
        on_change: Callable[[], None],
        now_s: Callable[[], float],
    ) -> None:
        super().__init__(address, on_change, now_s)
        self.client = TextClient(address, gateway_id, self)
        self.forwarded: set[Ticket] = set()
        self._active_at_beat = 0
        self._queued_at_beat = 0

    @property
    def slots(self) -> int:
        """Sequences that decode together."""
        return self.beat.slots_total if self.beat is not None else 0

    @property
    def backlog(self) -> int:
        """Own requests at the worker beyond what its slots hold."""
        return max(0, len(self.forwarded) - self.slots)

    @property
    def active(self) -> int:
        """Sequences in the batch: the last heartbeat, corrected by what happened since."""
        if self.beat is None:
            return 0
        active = self.beat.slots_active + self._own_active() - self._active_at_beat
        return min(max(active, 0), self.slots)

    @property
    def queued(self) -> int:
        """Sequences that wait at the worker, likewise."""
        if self.beat is None:
            return 0
        own = len(self.forwarded) - self._own_active()
        return max(self.beat.queue_depth + own - self._queued_at_beat, 0)

    def _own_active(self) -> int:
        return sum(ticket.in_batch for ticket in self.forwarded)

    def on_heartbeat(self, beat: worker_pb2.Heartbeat) -> None:
        """Note the state, and which of its load is our own."""
        self._active_at_beat = self._own_active()
        self._queued_at_beat = len(self.forwarded) - self._active_at_beat
        super().on_heartbeat(beat)
