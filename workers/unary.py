"""A worker process that answers each call by itself, around its lane.

Owns the service that every such worker offers beside its kind's: the card and the pulse. What the
calls say is the kind's. Runs on the event loop; the lane calls in from its thread.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio

from shared.errors import ServiceError, abort
from shared.pb import worker_pb2, worker_pb2_grpc
from workers import runtime
from workers.bootstrap import WorkerConfig
from workers.error_boundary import error_boundary
from workers.model_thread import ModelThread
from workers.process import WorkerProcess

_HEARTBEAT_S = 1.0

Context = grpc.aio.ServicerContext


class WorkerService(worker_pb2_grpc.WorkerServicer):
    """The card and the pulse of one worker.

    Attributes:
        budget_bytes: what the process may use.
        draining: set once it takes no more calls.
    """

    def __init__(self, lane: ModelThread[Any, Any], budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.draining = False
        self._lane = lane
        self._instance = secrets.token_hex(8)
        self._changed = asyncio.Event()

    def tell(self) -> None:
        """Send a heartbeat now: the load has changed."""
        self._changed.set()
        self._changed = asyncio.Event()

    @error_boundary
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
        memory = runtime.read_memory()
        memory.budget_bytes = self.budget_bytes
        return worker_pb2.Heartbeat(
            instance=self._instance,
            step=self._lane.steps,
            step_age_ms=int((self._lane.step_age_s() or 0.0) * 1000),
            slots_total=card.max_batch_size,
            slots_active=active,
            queue_depth=queued,
            memory=memory,
            counters=self._lane.counters,
            draining=self.draining,
        )


class UnaryProcess(WorkerProcess):
    """A process around a lane.

    Args:
        service: full name of the kind's own service; its servicer is added to `server`.
    """

    def __init__(self, place: WorkerConfig, lane: ModelThread[Any, Any], service: str) -> None:
        super().__init__(place, "mlxcel.v1.Worker", service)
        self._lane = lane
        self._service = WorkerService(lane, self.device.memory_bytes)
        worker_pb2_grpc.add_WorkerServicer_to_server(self._service, self.server)
        lane.listener = self

    async def run(self) -> int:
        """Serve until the end; return the exit code."""
        return await self.serve(self._lane)

    def drain(self) -> None:
        """Part of `WorkerProcess`."""
        self._service.draining = True
        self._service.tell()

    # ------------------------------------------------- on the lane's thread

    def ready(self) -> None:
        """Part of `Listener`."""
        self._loop.call_soon_threadsafe(self._open, self._lane.model.card.name)

    def worked(self) -> None:
        """Part of `Listener`."""
        self._loop.call_soon_threadsafe(self._service.tell)


def time_left_s(context: Context) -> float | None:
    """Return the seconds a call may still take; None without a deadline."""
    left_s = context.time_remaining()
    return None if left_s is None else max(0.0, left_s)
