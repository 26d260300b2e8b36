"""A worker process from start to end, whatever its kind: device, gRPC server, shutdown.

Owns the order of starting and stopping, the exit code, the watchdog's heartbeat to the supervisor
and the Worker service. What else is served is a kind's own. Runs on the event loop; the thread
that runs the model calls in.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from abc import ABC, abstractmethod
from typing import Protocol

from shared import lifecycle
from shared.pb import worker_pb2, worker_pb2_grpc
from shared.rpc import WorkerServer
from workers import runtime
from workers.bootstrap import WorkerConfig
from workers.device_memory import DeviceMemory
from workers.worker_service import WorkerService

log = logging.getLogger(__name__)

# Time for replies that are being sent when the process stops.
_FLUSH_S = 0.3


class Runner(Protocol):
    """Runs the model on a thread of its own: a `ModelThread`, or a text worker's `Engine`."""

    thread: threading.Thread

    def step_age_s(self) -> float | None:
        """Return the seconds since the thread last made progress; None while loading."""

    def stop(self) -> None:
        """End the thread after the current step."""


class WorkerProcess(ABC):
    """The parts of one process and their shutdown; the `WorkerState` of its Worker service.

    Args:
        service: full name of the kind's own service; its servicer is added to `server`.

    Attributes:
        server: where servicers are added, before `run`.
        device: what the process computes on.
    """

    def __init__(self, config: WorkerConfig, service: str) -> None:
        self.device = runtime.choose_device(config.memory_share)
        self._memory = DeviceMemory(
            self.device.memory_bytes,
            self.device.recommended_bytes,
            wired=config.settings.wired,
            keep_warm=config.settings.keep_warm,
        )
        self._memory.set_limits()
        log.info("computing on %s, %d MB", self.device.name, self.device.memory_bytes >> 20)
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._exit_code = 0
        names = ("mlxcel.v1.Worker", service)
        self._server = WorkerServer(config.address, *names, lock=config.lock)
        self.server = self._server.server
        self.worker_service = WorkerService(self)
        worker_pb2_grpc.add_WorkerServicer_to_server(self.worker_service, self.server)

    @property
    @abstractmethod
    def card(self) -> worker_pb2.ModelCard: ...

    @abstractmethod
    def read_heartbeat(self) -> worker_pb2.Heartbeat: ...

    async def serve(self, runner: Runner) -> int:
        """Serve until the process is stopped; return the exit code."""
        lifecycle.on_stop_signals(self._loop, self._stopping.set)
        beat = lifecycle.Beat(runner.step_age_s, self._stop_soon)
        beat.start()
        await self._server.start()
        runner.thread.start()
        await self._stopping.wait()
        self.worker_service.drain()
        runner.stop()
        await self._server.stop(_FLUSH_S)
        beat.stop()
        return self._exit_code

    def _set_ready(self, details: str = "") -> None:
        """Report in the health service that the model is ready."""
        self._ready_task = self._loop.create_task(self._server.set_ready(ready=True))
        log.info("%s is ready%s", self.card.name, details)

    # --------------------------------------------------- from other threads

    def wire_weights(self) -> None:
        """Wire the loaded model, before it serves; on the thread that runs it."""
        self._memory.wire_weights()

    def rest(self, idle_s: float) -> None:
        self._memory.rest(idle_s)

    def load_changed(self) -> None:
        self._loop.call_soon_threadsafe(self.worker_service.notify)

    def ended(self, failure: BaseException | None) -> None:
        if isinstance(failure, lifecycle.PermanentError):
            lifecycle.exit_permanently(str(failure))
        if failure is not None:
            log.error("the model's thread ended: %s", failure)
            self._exit_code = lifecycle.EXIT_RESTART
        self._stop_soon()

    def _stop_soon(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
