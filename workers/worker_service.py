"""The Worker service that every kind of worker answers: its model card and its heartbeats.

What the numbers are is the process's own. Runs on the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from typing import Protocol

from shared.errors import ServiceError, abort
from shared.lifecycle import read_step_limit_s
from shared.pb import worker_pb2, worker_pb2_grpc
from workers.error_boundary import RpcContext, error_boundary

_HEARTBEAT_S = 1.0
# Changes of the load within this time share a heartbeat: under many short requests heartbeats would
# otherwise be a good part of what is sent.
_PAUSE_S = 0.02


class WorkerState(Protocol):
    """What the service reports of a worker. Read on the event loop."""

    @property
    def card(self) -> worker_pb2.ModelCard:
        """The card of the loaded model.

        Raises:
            ServiceError: `model_loading`.
        """

    def read_heartbeat(self) -> worker_pb2.Heartbeat:
        """Return load, memory and counters now.

        The service sets `instance`, `draining` and `step_timeout_ms`.
        """


class WorkerService(worker_pb2_grpc.WorkerServicer):
    """Serves one worker's card and heartbeats.

    Attributes:
        draining: whether the worker refuses new calls, since it is stopping.
    """

    def __init__(self, state: WorkerState) -> None:
        self.draining = False
        self._state = state
        # Tells one start of the process from the next.
        self._instance = secrets.token_hex(8)
        self._step_timeout_ms = int(read_step_limit_s() * 1000)
        self._changed = asyncio.Event()

    def drain(self) -> None:
        self.draining = True
        self.notify()

    def notify(self) -> None:
        """Send a heartbeat now, since the load has changed."""
        self._changed.set()
        self._changed = asyncio.Event()

    @error_boundary
    async def Describe(
        self, request: worker_pb2.DescribeRequest, context: RpcContext
    ) -> worker_pb2.ModelCard:
        return self._state.card

    async def Pulse(
        self, request: worker_pb2.PulseRequest, context: RpcContext
    ) -> AsyncIterator[worker_pb2.Heartbeat]:
        try:
            _ = self._state.card
        except ServiceError as error:
            await abort(context, error)
        while True:
            changed = self._changed
            yield self._read_heartbeat()
            await asyncio.sleep(_PAUSE_S)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), _HEARTBEAT_S - _PAUSE_S)

    def _read_heartbeat(self) -> worker_pb2.Heartbeat:
        heartbeat = self._state.read_heartbeat()
        heartbeat.instance, heartbeat.draining = self._instance, self.draining
        heartbeat.step_timeout_ms = self._step_timeout_ms
        return heartbeat
