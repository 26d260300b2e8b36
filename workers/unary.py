"""The process of a worker that answers each call by itself, around a `ModelThread`.

For every kind but text. What the calls say is the kind's own. Runs on the event loop; the model
thread calls in.
"""

from __future__ import annotations

from typing import Any

from shared.pb import worker_pb2
from workers import runtime
from workers.bootstrap import WorkerConfig
from workers.error_boundary import RpcContext
from workers.model_thread import ModelThread
from workers.process import WorkerProcess


class UnaryProcess(WorkerProcess):
    """A process around a model thread; its `ThreadObserver`.

    Args:
        service: full name of the kind's own service; its servicer is added to `server`.
    """

    def __init__(
        self, config: WorkerConfig, model_thread: ModelThread[Any, Any], service: str
    ) -> None:
        super().__init__(config, service)
        self._model_thread = model_thread
        model_thread.observer = self

    async def run(self) -> int:
        """Serve until the process is stopped; return the exit code."""
        return await self.serve(self._model_thread)

    @property
    def card(self) -> worker_pb2.ModelCard:
        card: worker_pb2.ModelCard = self._model_thread.model.card
        return card

    def read_heartbeat(self) -> worker_pb2.Heartbeat:
        active, queued = self._model_thread.load()
        memory = runtime.read_memory()
        memory.budget_bytes = self.device.memory_bytes
        return worker_pb2.Heartbeat(
            step=self._model_thread.steps,
            step_age_ms=int((self._model_thread.step_age_s() or 0.0) * 1000),
            slots_total=self.card.max_batch_size,
            slots_active=active,
            queue_depth=queued,
            memory=memory,
            counters=self._model_thread.counters,
        )

    # ------------------------------------------------- on the model thread

    def ready(self) -> None:
        self.wire_weights()
        self._loop.call_soon_threadsafe(self._set_ready)


def time_left_s(context: RpcContext) -> float | None:
    """Return the seconds until a call's deadline; None without one."""
    left_s = context.time_remaining()
    return None if left_s is None else max(0.0, left_s)
