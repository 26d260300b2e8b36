"""The life of a worker process, whatever its kind: its device, its gRPC server, its end.

Owns the order of starting and stopping, the exit code, and the beat that tells the supervisor of
it. What is served, and what is to be told when the model is ready, is a kind's own. Runs on the
event loop; the thread that runs the model calls in.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from abc import ABC, abstractmethod
from typing import Protocol

from shared import lifecycle
from shared.rpc import WorkerServer
from workers import runtime
from workers.bootstrap import WorkerConfig

log = logging.getLogger(__name__)

# Replies that are under way when the process is told to stop.
_FLUSH_S = 0.3


class Runner(Protocol):
    """What runs the model, on a thread of its own: a lane, or the engine of a text worker."""

    thread: threading.Thread

    def step_age_s(self) -> float | None:
        """Return the seconds since it last did something; None while loading."""

    def stop(self) -> None:
        """End the thread after the step that runs."""


class WorkerProcess(ABC):
    """The parts of one process and how they end.

    Args:
        services: full names of what is served; their servicers are added to `server`.

    Attributes:
        server: where servicers are added, before `run`.
        device: what the process computes on.
    """

    def __init__(self, place: WorkerConfig, *services: str) -> None:
        self.device = runtime.set_up(place.memory_share)
        log.info("computing on %s, %d MB", self.device.name, self.device.memory_bytes >> 20)
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._exit_code = 0
        self._server = WorkerServer(place.address, *services)
        self.server = self._server.server

    async def serve(self, runner: Runner) -> int:
        """Serve until the end; return the exit code."""
        lifecycle.on_stop_signals(self._loop, self._stopping.set)
        beat = lifecycle.Beat(runner.step_age_s, self._stop_soon)
        beat.start()
        await self._server.start()
        runner.thread.start()
        await self._stopping.wait()
        self.drain()
        runner.stop()
        await self._server.stop(_FLUSH_S)
        beat.stop()
        return self._exit_code

    @abstractmethod
    def drain(self) -> None:
        """Say that nothing more is taken, in the way of the kind."""

    def _open(self, name: str, more: str = "") -> None:
        """Let the health service say that the model answers."""
        self._opening = self._loop.create_task(self._server.set_ready(ready=True))
        log.info("%s is ready%s", name, more)

    # --------------------------------------------------- from other threads

    def ended(self, failure: BaseException | None) -> None:
        """Part of the runner's `Listener`."""
        if isinstance(failure, lifecycle.PermanentError):
            lifecycle.exit_permanently(str(failure))
        if failure is not None:
            log.error("the model's thread ended: %s", failure)
            self._exit_code = lifecycle.EXIT_RESTART
        self._stop_soon()

    def _stop_soon(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
