"""A worker with independent calls: embeddings, reranking, audio.

Owns the call: limited in number and time, sent to the replica with the fewest calls, and repeated
once when that worker is lost. Routes build the calls; worker_watch.py has the state of one process.
Runs on the gateway's event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any

from gateway.fleet.unary_client import A, Method, Q, StreamMethod, UnaryClient
from gateway.fleet.worker import Worker
from gateway.fleet.worker_watch import LOSS_CODES, WorkerWatch
from shared.errors import ServiceError, busy
from shared.fleet import WorkerEntry

log = logging.getLogger(__name__)


class UnaryReplica(WorkerWatch):
    """One worker process.

    Attributes:
        calls: number of running calls of this gateway.
        isolated: its only call is being repeated after a loss, and has sent nothing yet.
    """

    def __init__(
        self, address: str, on_change: Callable[[], None], now_s: Callable[[], float]
    ) -> None:
        super().__init__(address, on_change, now_s)
        self.client = UnaryClient(address, self)
        self.calls = 0
        self.isolated = False


class UnaryWorker(Worker):
    """One entry of the fleet with independent calls.

    Args:
        recovery_timeout_s: how long a call waits for a lost worker to return, the time not counted
            in which it loads.
        now_s: a monotonic clock.
    """

    replicas: Sequence[UnaryReplica]

    def __init__(
        self,
        entry: WorkerEntry,
        addresses: Sequence[str],
        recovery_timeout_s: float,
        now_s: Callable[[], float],
    ) -> None:
        super().__init__(entry, [UnaryReplica(a, self._wake_waiters, now_s) for a in addresses])
        self._recovery_timeout_s = recovery_timeout_s
        self._changed = asyncio.Event()
        self._running: set[asyncio.Task[Any]] = set()
        self._failure: ServiceError | None = None
        self._suspects_waiting = 0

    async def call(self, method: Method[Q, A], request: Q, timeout_s: float) -> A:
        """Return the reply of the replica with the fewest calls.

        A call whose worker is lost is repeated once. It runs alone then, so that one that stops
        workers is the only one to be lost again.

        Args:
            timeout_s: time limit; the worker's own limit may be shorter.

        Raises:
            ServiceError: `server_busy`, `timeout`, `model_loading`, `worker_unavailable`,
                `worker_hung`, or the worker's refusal.
        """
        deadline_s = _now_s() + self._admit(timeout_s)
        task = asyncio.ensure_future(self._serve(method, request, deadline_s))
        self._running.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if self._failure is None:
                raise
            raise self._failure from None
        finally:
            self._running.discard(task)

    async def stream(
        self, method: StreamMethod[Q, A], request: Q, timeout_s: float
    ) -> AsyncGenerator[A]:
        """Yield the messages of a streamed reply; a lost call is repeated before the first only.

        Args:
            timeout_s: time limit for the first message, and from each message to the next.

        Raises:
            ServiceError: as `call` does.
        """
        limit_s = self._admit(timeout_s)
        caller = asyncio.current_task()
        assert caller is not None
        self._running.add(caller)
        try:
            pieces = self._serve_stream(method, request, limit_s)
            async with aclosing(pieces):
                async for piece in pieces:
                    yield piece
        except asyncio.CancelledError:
            if self._failure is None:
                raise
            caller.uncancel()
            raise self._failure from None
        finally:
            self._running.discard(caller)

    async def _serve_stream(
        self, method: StreamMethod[Q, A], request: Q, limit_s: float
    ) -> AsyncGenerator[A]:
        deadline_s = _now_s() + limit_s
        for is_last in (False, True):
            replica = await self._take_replica(deadline_s, alone=is_last)
            has_begun = False
            try:
                async with aclosing(replica.client.stream(method, request)) as pieces:
                    while (piece := await _next(pieces, deadline_s)) is not None:
                        has_begun = True
                        if replica.isolated:
                            self._share(replica)
                        yield piece
                        deadline_s = _now_s() + limit_s
                return
            except ServiceError as failure:
                self._check_retry(replica, failure, is_last=is_last or has_begun)
            finally:
                self._release(replica)

    def fail_all(self, error: ServiceError) -> None:
        """Fail every running call."""
        self._failure = error
        for task in list(self._running):
            task.cancel()

    async def _serve(self, method: Method[Q, A], request: Q, deadline_s: float) -> A:
        for is_last in (False, True):
            replica = await self._take_replica(deadline_s, alone=is_last)
            try:
                return await replica.client.call(method, request, deadline_s - _now_s())
            except ServiceError as failure:
                self._check_retry(replica, failure, is_last=is_last)
            finally:
                self._release(replica)
        raise AssertionError("a last attempt returns or raises")

    def _check_retry(self, replica: UnaryReplica, failure: ServiceError, *, is_last: bool) -> None:
        """Return if a failed call may be repeated, else raise its failure."""
        failure = replica.explain_loss(failure)
        if failure.code in LOSS_CODES:
            replica.on_doubt()
        if is_last or failure.code not in LOSS_CODES:
            raise failure
        log.info("%s: repeating a call after %s", self.entry.name, failure.code)

    def _admit(self, timeout_s: float) -> float:
        """Return the time limit of a new call, in seconds.

        Raises:
            ServiceError: the worker is not ready or has too many calls.
        """
        card = self.require_ready()
        self._refuse_full()
        return min(timeout_s, card.call_timeout_ms / 1000 or timeout_s)

    def _refuse_full(self) -> None:
        """Refuse a call over the limit; the worker itself also counts those of other gateways."""
        live = [replica for replica in self.replicas if replica.live]
        limit = sum(replica.card.queue_limit for replica in live if replica.card is not None)
        if limit and len(self._running) >= limit:
            raise busy()

    async def _take_replica(self, deadline_s: float, *, alone: bool) -> UnaryReplica:
        """Wait for a replica that may run one more call; count the call there.

        Args:
            alone: it may run no other call meanwhile. Such calls go first.

        Raises:
            ServiceError: `timeout`; `worker_unavailable`, every replica was lost for too long, or
                none can start.
        """
        self._suspects_waiting += alone
        give_up_s = deadline_s
        try:
            while (replica := self._find_room(alone=alone)) is None:
                self.refuse_failed()
                give_up_s = self._limit_wait(give_up_s, deadline_s)
                await self._wait_for_change(give_up_s, deadline_s)
        finally:
            self._suspects_waiting -= alone
            if alone:
                self._wake_waiters()
        replica.calls += 1
        replica.isolated = alone
        return replica

    def _find_room(self, *, alone: bool) -> UnaryReplica | None:
        """Return the ready replica with the fewest calls that may run one more."""
        ready = [replica for replica in self.replicas if replica.ready]
        if alone:
            return next((replica for replica in ready if not replica.calls), None)
        if self._suspects_waiting:
            return None
        shared = [replica for replica in ready if not replica.isolated]
        return min(shared, key=lambda replica: replica.calls, default=None)

    def _limit_wait(self, give_up_s: float, deadline_s: float) -> float:
        """Return when a wait ends: at its deadline, or sooner while every replica is lost."""
        if any(replica.expected for replica in self.replicas):
            return deadline_s
        return min(give_up_s, _now_s() + self._recovery_timeout_s)

    async def _wait_for_change(self, give_up_s: float, deadline_s: float) -> None:
        try:
            async with asyncio.timeout_at(give_up_s):
                await self._changed.wait()
        except TimeoutError:
            if _now_s() >= deadline_s:
                raise _late() from None
            raise ServiceError(
                "worker_unavailable",
                "The model worker did not come back in time.",
                retry_after_s=1.0,
            ) from None

    def _release(self, replica: UnaryReplica) -> None:
        replica.calls -= 1
        if not replica.calls:
            self._share(replica)

    def _share(self, replica: UnaryReplica) -> None:
        """Let a replica run more calls beside the one it was taken for."""
        replica.isolated = False
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _clients(self) -> Sequence[UnaryClient]:
        return [replica.client for replica in self.replicas]


async def _next(pieces: AsyncGenerator[A], deadline_s: float) -> A | None:
    """Return the next message; None at the end.

    Raises:
        ServiceError: the call failed, or `timeout`.
    """
    try:
        async with asyncio.timeout_at(deadline_s):
            return await anext(pieces, None)
    except TimeoutError:
        raise _late() from None


def _late() -> ServiceError:
    return ServiceError("timeout", "The model worker did not answer in time.")


def _now_s() -> float:
    return asyncio.get_running_loop().time()
