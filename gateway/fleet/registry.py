"""Which workers there are, and which of them a model name means.

Owns the list of workers and the meaning of names; what one worker is and can do now is
worker.py's. Runs on the gateway's event loop.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from gateway.fleet.admission import Admission
from gateway.fleet.replica import Replica
from gateway.fleet.unary_worker import UnaryWorker
from gateway.fleet.worker import TextWorker, Worker
from shared.errors import ServiceError
from shared.fleet import WorkerEntry

# Kind of worker → the paths it answers.
_PATHS: Final = {
    "embed": "/v1/embeddings, /embeddings, /embedding",
    "audio": "/v1/audio/transcriptions, /v1/audio/translations, /v1/audio/speech",
    "rerank": "/v1/rerank, /v1/reranking, /rerank, /reranking",
}


class Registry:
    """All workers of the fleet.

    Args:
        workers: the fleet's entries, each with the gRPC addresses of its replicas.
        queue_limit: requests that may wait per worker.
        recovery_timeout_s: how long they wait for a worker that is away.
        strict_model: refuse unknown model names.
        now_s: a monotonic clock.
    """

    def __init__(
        self,
        workers: Sequence[tuple[WorkerEntry, Sequence[str]]],
        *,
        queue_limit: int,
        recovery_timeout_s: float,
        strict_model: bool,
        now_s: Callable[[], float],
    ) -> None:
        self._gateway_id = secrets.token_hex(8)
        self._queue_limit = queue_limit
        self._recovery_timeout_s = recovery_timeout_s
        self._strict_model = strict_model
        self._now_s = now_s
        self._tasks: list[asyncio.Task[None]] = []
        self.workers: list[Worker] = [self._make(*worker) for worker in workers]

    def _make(self, entry: WorkerEntry, addresses: Sequence[str]) -> Worker:
        if entry.kind != "text":
            return UnaryWorker(entry, addresses, self._recovery_timeout_s, self._now_s)
        admission = Admission(self._queue_limit, self._recovery_timeout_s, self._now_s)
        replicas = [Replica(a, self._gateway_id, admission.pump, self._now_s) for a in addresses]
        admission.replicas = replicas
        return TextWorker(entry, replicas, admission)

    def start(self) -> None:
        """Start talking to every worker."""
        for worker in self.workers:
            self._tasks += worker.start()

    async def stop(self) -> None:
        """End every conversation."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for worker in self.workers:
            await worker.close()

    def fail_calls(self, error: ServiceError) -> None:
        """End every running call of the kinds that answer each by itself."""
        for worker in self.workers:
            if isinstance(worker, UnaryWorker):
                worker.fail_all(error)

    def of_kind(self, kind: str) -> list[UnaryWorker]:
        """Return the workers of a kind that answers each call by itself, in the fleet's order."""
        return [
            worker
            for worker in self.workers
            if isinstance(worker, UnaryWorker) and worker.entry.kind == kind
        ]

    def choose(
        self, kind: str, model: str | None, suits: Callable[[Worker], bool] = lambda _: True
    ) -> UnaryWorker | None:
        """Return the worker of a kind that a request's `model` means; None if there is no such.

        Clients name the models they know, such as "whisper-1", so that any name means the first
        worker of the kind if it is not that of another.

        Args:
            suits: which workers of the kind can do what is asked.

        Raises:
            ServiceError: under `strict_model`, the name is nobody's.
        """
        workers = list(filter(suits, self.of_kind(kind)))
        for worker in workers:
            if model is not None and model in worker.names():
                return worker
        if workers and model and self._strict_model:
            self._refuse(model)
        return workers[0] if workers else None

    def resolve(self, model: str | None) -> TextWorker:
        """Return the text worker a request's `model` means.

        Raises:
            ServiceError: there is none, or the name is that of another kind of model, or under
                `strict_model` nobody's.
        """
        if model:
            named = [worker for worker in self.workers if model in worker.names()]
            for worker in named:
                if isinstance(worker, TextWorker):
                    return worker
            if named:
                kind = named[0].entry.kind
                raise ServiceError(
                    "invalid_request",
                    f"The model '{model[:200]}' does not generate text: its kind is {kind}.",
                    "model",
                )
            if self._strict_model:
                self._refuse(model)
        return self.default()

    def _refuse(self, model: str) -> NoReturn:
        if any(worker.card is None for worker in self.workers):
            raise ServiceError("model_loading", "Loading model", retry_after_s=1.0)
        raise ServiceError("model_not_found", f"The model '{model[:200]}' does not exist.", "model")

    def default(self) -> TextWorker:
        """Return the first text worker.

        Raises:
            ServiceError: the fleet has none.
        """
        for worker in self.workers:
            if isinstance(worker, TextWorker):
                return worker
        kinds = dict.fromkeys(worker.entry.kind for worker in self.workers)
        paths = ", ".join(_PATHS[kind] for kind in kinds) or "nothing yet"
        raise ServiceError("not_implemented", f"This server has no text model. It serves {paths}.")
