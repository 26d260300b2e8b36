"""The queue in front of one worker: which requests are forwarded, which wait, which are refused.

Requests beyond what the worker should hold wait here, where cancelling is free, ordered by priority
class and arrival. Refusing needs no RPC and no waiting: it only counts. Runs on the gateway's event
loop; time is injected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from gateway.fleet.mailbox import Mailbox
from gateway.fleet.replica import Replica
from shared.errors import ServiceError, busy
from shared.pb import common_pb2 as common
from shared.pb import text_pb2 as pb
from shared.priority import effective_class

# Requests a replica holds beyond its slots, so that a freed slot has its next request at once.
_BACKLOG: Final = 2


class Ticket:
    """One request: first in the queue, then at a replica.

    Attributes:
        resumed: a worker has run it before; it goes ahead of the queue.
        isolate: it is suspected of crashing workers.
        box: receives its events once it is at a replica.
    """

    def __init__(self, request: pb.GenerateRequest, *, resumed: bool, isolate: bool) -> None:
        self.priority = request.priority or common.PRIORITY_NORMAL
        self.arrival_ns = request.arrival_ns
        self.resumed = resumed
        self.isolate = isolate
        self.since_s = 0.0
        self.box: Mailbox | None = None
        self.replica: Replica | None = None
        self.assigned: asyncio.Future[Replica] = asyncio.get_running_loop().create_future()

    @property
    def in_batch(self) -> bool:
        """Whether its prefill has started and it has not ended."""
        return self.box is not None and self.box.started_s is not None and not self.box.ended

    @property
    def suspect(self) -> bool:
        """Whether it is isolated and this attempt has produced no token."""
        return self.isolate and (self.box is None or not self.box.token_ids)

    def fail(self, error: ServiceError) -> None:
        """Fail the running attempt, or the wait for a replica."""
        if self.box is not None:
            self.box.fail(error)
        elif not self.assigned.done():
            self.assigned.set_exception(error)

    def forget_failure(self) -> None:
        """Retrieve a failure that nobody awaits, which asyncio would report."""
        if self.assigned.done() and not self.assigned.cancelled():
            self.assigned.exception()


class Admission:
    """The queue in front of the replicas of one worker.

    Args:
        limit: requests that may wait, here and at the replicas together.
        recovery_timeout_s: longest wait while every replica is lost. While one loads or is busy,
            only a request's own time limit ends its wait.
        now_s: a monotonic clock.

    Attributes:
        check: raises a ServiceError if no replica can start.
    """

    def __init__(self, limit: int, recovery_timeout_s: float, now_s: Callable[[], float]) -> None:
        self.replicas: Sequence[Replica] = ()
        self.check: Callable[[], None] = lambda: None
        self._limit = limit
        self._recovery_timeout_s = recovery_timeout_s
        self._now_s = now_s
        self._waiting: list[Ticket] = []
        self._giving_up: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """Number of requests in the queue."""
        return len(self._waiting)

    @property
    def depth(self) -> int:
        """Number of requests that wait, here or at a replica."""
        return len(self._waiting) + sum(replica.backlog for replica in self.replicas)

    def enqueue(self, ticket: Ticket) -> None:
        """Add a request; it is forwarded at once if a replica has room.

        Raises:
            ServiceError: `server_busy`, the queue is full.
        """
        if not ticket.resumed and self.depth >= self._limit and not self._slot_is_free():
            raise busy()
        ticket.since_s = self._now_s()
        self._waiting.append(ticket)
        self.pump()

    async def wait(self, ticket: Ticket) -> Replica:
        """Return the replica that a request is forwarded to, once it is.

        Raises:
            ServiceError: the ticket was failed.
        """
        try:
            return await ticket.assigned
        finally:
            ticket.forget_failure()
            if ticket.replica is None:
                self._waiting.remove(ticket)

    def release(self, ticket: Ticket) -> None:
        """Remove a request from its replica."""
        if ticket.replica is not None and ticket in ticket.replica.forwarded:
            ticket.replica.forwarded.discard(ticket)
            self.pump()

    def pump(self) -> None:
        """Forward requests while replicas have room; called when a replica's state changes."""
        while self._waiting and self._forward_one():
            pass
        unserved = bool(self._waiting) and not any(replica.expected for replica in self.replicas)
        if unserved:
            self._fail_unstartable()
        if unserved and self._giving_up is None:
            loop = asyncio.get_running_loop()
            self._giving_up = loop.call_later(self._recovery_timeout_s, self._give_up)
        elif not unserved and self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    def _fail_unstartable(self) -> None:
        try:
            self.check()
        except ServiceError as error:
            for ticket in self._waiting:
                ticket.fail(error)

    def _give_up(self) -> None:
        self._giving_up = None
        for ticket in self._waiting:
            ticket.fail(
                ServiceError(
                    "worker_unavailable",
                    f"The model worker did not come back within {self._recovery_timeout_s:g} s.",
                    retry_after_s=1.0,
                )
            )

    def _forward_one(self) -> bool:
        now_s = self._now_s()
        for ticket in sorted(self._waiting, key=lambda ticket: self._rank(ticket, now_s)):
            if ticket.assigned.done():
                continue
            replica = self._room_for(ticket, self._class(ticket, now_s))
            if replica is not None:
                self._waiting.remove(ticket)
                ticket.replica = replica
                replica.forwarded.add(ticket)
                ticket.assigned.set_result(replica)
                return True
        return False

    def _rank(self, ticket: Ticket, now_s: float) -> tuple[bool, int, int]:
        return (not ticket.resumed, self._class(ticket, now_s), ticket.arrival_ns)

    def _class(self, ticket: Ticket, now_s: float) -> int:
        """Return the priority class with aging applied; a smaller number is a higher class."""
        return effective_class(ticket.priority, now_s - ticket.since_s)

    def _room_for(self, ticket: Ticket, priority: int) -> Replica | None:
        """Return the least loaded replica with room for a request, if any."""
        if ticket.isolate and self._suspect_runs():
            return None
        ready = sorted(
            (replica for replica in self.replicas if replica.ready),
            key=lambda replica: len(replica.forwarded) - replica.slots,
        )
        for replica in ready:
            if ticket.resumed or replica.backlog < _BACKLOG:
                return replica
            # The worker orders its queue by class, so a higher class is forwarded in any case.
            if any(other.priority > priority for other in replica.forwarded):
                return replica
        return None

    def _suspect_runs(self) -> bool:
        return any(other.suspect for replica in self.replicas for other in replica.forwarded)

    def _slot_is_free(self) -> bool:
        return any(r.ready and len(r.forwarded) < r.slots for r in self.replicas)
