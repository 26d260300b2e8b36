"""One worker process as the gateway sees it: its state, its load, its counters.

Owns what the last heartbeat said, corrected by the gateway's own requests since; the conversation
itself is text_client.py's, the queue admission.py's. Runs on the gateway's event loop; time is
injected.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Literal

from gateway.mailbox import Mailbox
from gateway.text_client import TextClient
from shared.errors import ServiceError
from shared.pb import common_pb2 as common
from shared.pb import text_pb2 as pb
from shared.pb import worker_pb2

log = logging.getLogger(__name__)

# Heartbeats come every second; a worker that misses this many is not given new requests.
_SILENCE_S: Final = 10.0
# Its event loop may beat on while the engine hangs in a step. Long chunks of a prompt take
# seconds on slow machines; nothing but a fault takes this long.
_HANG_S: Final = 30.0

State = Literal["loading", "ready", "down"]


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


class Replica:
    """One worker process: its client and the last it said. Observes its own client."""

    def __init__(
        self,
        address: str,
        gateway_id: str,
        on_change: Callable[[], None],
        now_s: Callable[[], float],
    ) -> None:
        self.client = TextClient(address, gateway_id, self)
        self.card: worker_pb2.ModelCard | None = None
        self.beat: worker_pb2.Heartbeat | None = None
        self.forwarded: set[Ticket] = set()
        self.counters = Counters()
        self._state: State = "loading"
        self._on_change = on_change
        self._now_s = now_s
        self._heard_s = 0.0
        self._active_at_beat = 0
        self._queued_at_beat = 0

    @property
    def state(self) -> State:
        """What it can do now; a worker that has fallen silent or hangs is down."""
        if self._state != "ready" or self.beat is None:
            return self._state
        silent = self._now_s() - self._heard_s > _SILENCE_S
        hangs = self.beat.step_age_ms > _HANG_S * 1000
        return "down" if silent or hangs else "ready"

    @property
    def ready(self) -> bool:
        """Whether a request may be forwarded now."""
        return self.state == "ready"

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

    def on_card(self, card: worker_pb2.ModelCard) -> None:
        """Keep the card; it outlives the process that sent it."""
        self.card = card

    def on_heartbeat(self, beat: worker_pb2.Heartbeat) -> None:
        """Note the state; a first one makes the replica ready."""
        self.beat = beat
        self._heard_s = self._now_s()
        self._active_at_beat = self._own_active()
        self._queued_at_beat = len(self.forwarded) - self._active_at_beat
        self.counters.update(beat.instance, beat.counters)
        if self._state != "ready" and not beat.draining:
            log.info("worker ready: %s at %s", self.card and self.card.name, self.client.address)
        self._state = "down" if beat.draining else "ready"
        self._on_change()

    def on_doubt(self) -> None:
        """Send nothing more until the next heartbeat."""
        self._state = "down"

    def on_lost(self, error: ServiceError) -> None:
        """Note that it is gone, or not there yet."""
        if self._state == "ready":
            log.warning("worker lost: %s (%s)", self.client.address, error.code)
        self._state = "loading" if self.card is None or error.code == "model_loading" else "down"
        self.beat = None
        self._on_change()


class Counters:
    """Counters of one address, over all processes that answered there."""

    _NAMES: Final = tuple(field.name for field in worker_pb2.Counters.DESCRIPTOR.fields)

    def __init__(self) -> None:
        self._instance = ""
        self._base = dict.fromkeys(self._NAMES, 0)
        self._last = dict.fromkeys(self._NAMES, 0)

    def update(self, instance: str, counters: worker_pb2.Counters) -> None:
        """Take in what a process counts since its own start."""
        if instance != self._instance:
            self._base, self._instance = self.values(), instance
        self._last = {name: getattr(counters, name) for name in self._NAMES}

    def values(self) -> dict[str, int]:
        """Return each counter by its name in worker.proto."""
        return {name: self._base[name] + self._last[name] for name in self._NAMES}
