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
    """

    def __init__(
        self, address: str, on_change: Callable[[], None], now_s: Callable[[], float]
    ) -> None:
        super().__init__(address, on_change, now_s)
        self.client = UnaryClient(address, self)
        self.calls = 0


class UnaryWorker(Worker):
    """One entry of the fleet with independent calls.

    Args:
        recovery_timeout_s: how long a call waits for a lost worker to return.
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

    async def call(self, method: Method[Q, A], request: Q, timeout_s: float) -> A:
        """Return the reply of the replica with the fewest calls.

        A call whose worker is lost is repeated once, on the first replica that is ready.

        Args:
            timeout_s: time limit; the worker's own limit may be shorter.

        Raises:
            ServiceError: `server_busy`, `timeout`, `model_loading`, `worker_unavailable`, or the
                worker's refusal.
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
            replica = await self._find_ready(deadline_s)
            has_begun = False
            replica.calls += 1
            try:
                async with aclosing(replica.client.stream(method, request)) as pieces:
                    while (piece := await _next(pieces, deadline_s)) is not None:
                        has_begun = True
                        yield piece
                        deadline_s = _now_s() + limit_s
                return
            except ServiceError as failure:
                self._check_retry(replica, failure, is_last=is_last or has_begun)
            finally:
                replica.calls -= 1

    def fail_all(self, error: ServiceError) -> None:
        """Fail every running call."""
        self._failure = error
        for task in list(self._running):
            task.cancel()

    async def _serve(self, method: Method[Q, A], request: Q, deadline_s: float) -> A:
        for is_last in (False, True):
            replica = await self._find_ready(deadline_s)
            replica.calls += 1
            try:
                return await replica.client.call(method, request, deadline_s - _now_s())
            except ServiceError as failure:
                self._check_retry(replica, failure, is_last=is_last)
            finally:
                replica.calls -= 1
        raise AssertionError("a last attempt returns or raises")

    def _check_retry(self, replica: UnaryReplica, failure: ServiceError, *, is_last: bool) -> None:
        """Return if a failed call may be repeated, else raise its failure."""
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
        ready = [replica for replica in self.replicas if replica.ready]
        limit = sum(replica.card.queue_limit for replica in ready if replica.card is not None)
        if limit and sum(replica.calls for replica in self.replicas) >= limit:
            raise busy()

    async def _find_ready(self, deadline_s: float) -> UnaryReplica:
        """Wait for a replica that is ready; return the one with the fewest calls.

        Raises:
            ServiceError: `worker_unavailable`, none is ready in time, or none can start.
        """
        give_up_s = min(deadline_s, _now_s() + self._recovery_timeout_s)
        while not (ready := [replica for replica in self.replicas if replica.ready]):
            self.refuse_failed()
            try:
                await asyncio.wait_for(self._changed.wait(), give_up_s - _now_s())
            except TimeoutError:
                raise ServiceError(
                    "worker_unavailable",
                    "The model worker did not come back in time.",
                    retry_after_s=1.0,
                ) from None
        return min(ready, key=lambda replica: replica.calls)

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
        raise ServiceError("timeout", "The model worker did not answer in time.") from None


def _now_s() -> float:
    return asyncio.get_running_loop().time()
