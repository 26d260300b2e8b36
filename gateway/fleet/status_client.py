"""Client of one worker's Worker service: card and heartbeats, the same for every kind.

Owns their order, and reconnects to a worker that is lost. Reports to an observer. Runs on the
gateway's event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

import grpc.aio

from gateway.fleet.worker_watch import WorkerObserver
from shared.errors import ServiceError, from_rpc
from shared.pb import worker_pb2, worker_pb2_grpc

_DESCRIBE_TIMEOUT_S: Final = 5.0
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 0.25


class StatusClient:
    def __init__(self, channel: grpc.aio.Channel, observer: WorkerObserver) -> None:
        self._stub = worker_pb2_grpc.WorkerStub(channel)
        self._observer = observer
        self._was_live = False

    async def run(
        self,
        observe: Callable[[], Awaitable[None]] | None = None,
        on_lost: Callable[[ServiceError], None] | None = None,
    ) -> NoReturn:
        """Observe a worker until cancelled; reconnect after every loss.

        Args:
            observe: called once the card is known; returns or raises when the worker is lost.
                The default is `read_heartbeats`.
            on_lost: called after the observer's.
        """
        pause_s = 0.0
        while True:
            error = ServiceError("worker_unavailable", "The model worker has exited.")
            try:
                await self._describe()
                await (observe or self.read_heartbeats)()
            except grpc.aio.AioRpcError as failure:
                error = from_rpc(failure)
            # A worker that was live is tried again at once.
            pause_s = 0.0 if self._was_live else _lengthen(pause_s)
            self._was_live = False
            self._observer.on_lost(error)
            if on_lost is not None:
                on_lost(error)
            await asyncio.sleep(pause_s)

    async def read_heartbeats(self) -> None:
        """Report heartbeats until they end."""
        call = self._stub.Pulse(worker_pb2.PulseRequest())
        try:
            # Not `async for`, which leaves a task running when it is cancelled.
            while isinstance(beat := await call.read(), worker_pb2.Heartbeat):
                self._was_live = True
                self._observer.on_heartbeat(beat)
        finally:
            call.cancel()

    async def _describe(self) -> None:
        request = worker_pb2.DescribeRequest()
        self._observer.on_card(await self._stub.Describe(request, timeout=_DESCRIBE_TIMEOUT_S))


def _lengthen(pause_s: float) -> float:
    return min(max(pause_s * 2, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
