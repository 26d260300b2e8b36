"""A worker process that answers each call by itself, around its lane.

Owns the service that every such worker offers beside its kind's (the card and the pulse), the
order of starting and stopping, and the exit code. What the calls say is the kind's. Runs on the
event loop; the lane calls in from its thread.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import mlx.core as mx

from shared import lifecycle
from shared.errors import ServiceError, abort
from shared.pb import worker_pb2, worker_pb2_grpc
from shared.rpc import WorkerServer
from workers import runtime
from workers.lane import Lane
from workers.place import Place
from workers.rim import rim

log = logging.getLogger(__name__)

_HEARTBEAT_S = 1.0
# Replies that are under way when the process is told to stop.
_FLUSH_S = 0.3

Context = grpc.aio.ServicerContext


class WorkerService(worker_pb2_grpc.WorkerServicer):
    """The card and the pulse of one worker.

    Attributes:
        budget_bytes: what the process may use.
        draining: set once it takes no more calls.
    """

    def __init__(self, lane: Lane[Any, Any], budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.draining = False
        self._lane = lane
        self._instance = secrets.token_hex(8)
        self._changed = asyncio.Event()

    def tell(self) -> None:
        """Send a heartbeat now: the load has changed."""
        self._changed.set()
        self._changed = asyncio.Event()

    @rim
    async def Describe(
        self, request: worker_pb2.DescribeRequest, context: Context
    ) -> worker_pb2.ModelCard:
        return self._lane.model.card

    async def Pulse(
        self, request: worker_pb2.PulseRequest, context: Context
    ) -> AsyncIterator[worker_pb2.Heartbeat]:
        try:
            card = self._lane.model.card
        except ServiceError as error:
            await abort(context, error)
        while True:
            changed = self._changed
            yield self._heartbeat(card)
            try:
                await asyncio.wait_for(changed.wait(), _HEARTBEAT_S)
            except TimeoutError:
                continue

    def _heartbeat(self, card: worker_pb2.ModelCard) -> worker_pb2.Heartbeat:
        active, queued = self._lane.load()
        return worker_pb2.Heartbeat(
            instance=self._instance,
            step=self._lane.steps,
            step_age_ms=int((self._lane.step_age_s() or 0.0) * 1000),
            slots_total=card.max_batch_size,
            slots_active=active,
            queue_depth=queued,
            memory=self._memory(),
            counters=self._lane.counters,
            draining=self.draining,
        )

    def _memory(self) -> worker_pb2.Memory:
        return worker_pb2.Memory(
            rss_bytes=runtime.rss_bytes(),
            active_bytes=mx.get_active_memory(),
            pooled_bytes=mx.get_cache_memory(),
            peak_bytes=mx.get_peak_memory(),
            budget_bytes=self.budget_bytes,
        )


class UnaryProcess:
    """The parts of one process and how they end.

    Args:
        service: full name of the kind's own service; its servicer is added to `server`.
        share: of the device's memory, unless the fleet file says another.

    Attributes:
        server: where the kind adds its servicer, before `run`.
        device: what the process computes on.
    """

    def __init__(self, place: Place, lane: Lane[Any, Any], service: str, share: float) -> None:
        self.device = runtime.set_up(place.entry.memory_share or share)
        log.info("computing on %s, %d MB", self.device.name, self.device.memory_bytes >> 20)
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._exit_code = 0
        self._lane = lane
        self._service = WorkerService(lane, self.device.memory_bytes)
        self._server = WorkerServer(place.address, "mlxcel.v1.Worker", service)
        self.server = self._server.server
        worker_pb2_grpc.add_WorkerServicer_to_server(self._service, self.server)
        lane.listener = self

    async def run(self) -> int:
        """Serve until the end; return the exit code."""
        lifecycle.on_stop_signals(self._loop, self._stopping.set)
        orphaned = lambda: self._loop.call_soon_threadsafe(self._stopping.set)  # noqa: E731
        beat = lifecycle.Beat(self._lane.step_age_s, orphaned)
        beat.start()
        await self._server.start()
        self._lane.thread.start()
        await self._stopping.wait()
        self._service.draining = True
        self._service.tell()
        self._lane.stop()
        await self._server.stop(_FLUSH_S)
        beat.stop()
        return self._exit_code

    # ------------------------------------------------- on the lane's thread

    def ready(self) -> None:
        """Part of `Listener`."""
        self._loop.call_soon_threadsafe(self._announce)

    def worked(self) -> None:
        """Part of `Listener`."""
        self._loop.call_soon_threadsafe(self._service.tell)

    def ended(self, failure: BaseException | None) -> None:
        """Part of `Listener`."""
        if isinstance(failure, lifecycle.PermanentError):
            lifecycle.exit_permanently(str(failure))
        if failure is not None:
            log.error("the lane ended: %s", failure)
            self._exit_code = lifecycle.EXIT_RESTART
        self._loop.call_soon_threadsafe(self._stopping.set)

    # --------------------------------------------------------- on the loop

    def _announce(self) -> None:
        self._ready_task = self._loop.create_task(self._server.set_ready(ready=True))
        log.info("%s is ready", self._lane.model.card.name)


def time_left_s(context: Context) -> float | None:
    """Return the seconds a call may still take; None without a deadline."""
    left_s = context.time_remaining()
    return None if left_s is None else max(0.0, left_s)
