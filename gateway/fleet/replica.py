"""One text worker process as the gateway sees it.

Owns its load: what the last heartbeat reported, corrected by the requests that this gateway has
sent or finished since. RPCs are text_client.py's, the queue is admission.py's. Runs on the
gateway's event loop; time is injected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gateway.fleet.text_client import TextClient
from gateway.fleet.worker_watch import WorkerWatch
from shared.pb import common_pb2 as common
from shared.pb import worker_pb2


class ForwardedRequest(Protocol):
    """A request of this gateway at a replica."""

    @property
    def priority(self) -> common.Priority.ValueType: ...

    @property
    def in_batch(self) -> bool: ...

    @property
    def suspect(self) -> bool: ...


class Replica(WorkerWatch):
    """One text worker process: its client and its last report. Observes its own client."""

    def __init__(
        self,
        address: str,
        gateway_id: str,
        on_change: Callable[[], None],
        now_s: Callable[[], float],
    ) -> None:
        super().__init__(address, on_change, now_s)
        self.client = TextClient(address, gateway_id, self)
        self.forwarded: set[ForwardedRequest] = set()
        self._active_at_beat = 0
        self._queued_at_beat = 0

    @property
    def slots(self) -> int:
        """Sequences that decode together."""
        return self.beat.slots_total if self.beat is not None else 0

    @property
    def backlog(self) -> int:
        """Requests of this gateway at the worker beyond its slots."""
        return max(0, len(self.forwarded) - self.slots)

    @property
    def active(self) -> int:
        """Sequences in the batch: the last heartbeat, corrected by events since."""
        if self.beat is None:
            return 0
        active = self.beat.slots_active + self._own_active() - self._active_at_beat
        return min(max(active, 0), self.slots)

    @property
    def queued(self) -> int:
        """Sequences that wait at the worker, corrected likewise."""
        if self.beat is None:
            return 0
        own = len(self.forwarded) - self._own_active()
        return max(self.beat.queue_depth + own - self._queued_at_beat, 0)

    def _own_active(self) -> int:
        return sum(request.in_batch for request in self.forwarded)

    def on_heartbeat(self, beat: worker_pb2.Heartbeat) -> None:
        """Store the state, and how much of the reported load is this gateway's."""
        self._active_at_beat = self._own_active()
        self._queued_at_beat = len(self.forwarded) - self._active_at_beat
        super().on_heartbeat(beat)
