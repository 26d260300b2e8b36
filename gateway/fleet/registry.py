"""The workers of the fleet, and which of them a model name means.

Owns the list of workers and the resolution of names; the state of one worker is worker.py's. Runs
on the gateway's event loop.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from gateway.fleet.admission import Admission
from gateway.fleet.replica import Replica
from gateway.fleet.text_worker import TextWorker
from gateway.fleet.unary_worker import UnaryWorker
from gateway.fleet.worker import Worker
from shared.errors import ServiceError
from shared.fleet import WorkerEntry
from shared.kind import KINDS


class Registry:
    """All workers of the fleet.

    Args:
        workers: the fleet's entries, each with the gRPC addresses of its replicas.
        queue_limit: requests that may wait per worker.
        recovery_timeout_s: how long they wait for a worker that has been lost.
        strict_model: refuse unknown model names.
        paths: of the routes of each kind of worker, for error messages.
        now_s: a monotonic clock.
    """

    def __init__(
        self,
        workers: Sequence[tuple[WorkerEntry, Sequence[str]]],
        *,
        queue_limit: int,
        recovery_timeout_s: float,
        strict_model: bool,
        paths: Mapping[str, Sequence[str]],
        now_s: Callable[[], float],
    ) -> None:
        self._gateway_id = secrets.token_hex(8)
        self._queue_limit = queue_limit
        self._recovery_timeout_s = recovery_timeout_s
        self._strict_model = strict_model
        self._paths = paths
        self._now_s = now_s
        self._tasks: list[asyncio.Task[None]] = []
        self.workers: list[Worker] = [self._make(*worker) for worker in workers]

    def _make(self, entry: WorkerEntry, addresses: Sequence[str]) -> Worker:
        if KINDS[entry.kind].is_unary:
            return UnaryWorker(entry, addresses, self._recovery_timeout_s, self._now_s)
        admission = Admission(self._queue_limit, self._recovery_timeout_s, self._now_s)
        replicas = [Replica(a, self._gateway_id, admission.pump, self._now_s) for a in addresses]
        admission.replicas = replicas
        worker = TextWorker(entry, replicas, admission)
        admission.check = worker.refuse_failed
        return worker

    def start(self) -> None:
        """Connect to every worker."""
        for worker in self.workers:
            self._tasks += worker.start()

    async def stop(self) -> None:
        """Close every connection."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for worker in self.workers:
            await worker.close()

    def fail_calls(self, error: ServiceError) -> None:
        """End every running call of unary workers with an error."""
        for worker in self.workers:
            if isinstance(worker, UnaryWorker):
                worker.fail_all(error)

    def of_kind(self, kind: str) -> list[UnaryWorker]:
        """Return the workers of a unary kind, in the fleet's order."""
        return [
            worker
            for worker in self.workers
            if isinstance(worker, UnaryWorker) and worker.entry.kind == kind
        ]

    def choose(
        self, kind: str, model: str | None, suits: Callable[[Worker], bool] = lambda _: True
    ) -> UnaryWorker | None:
        """Return the worker of a kind that a request's `model` names; None without such workers.

        Clients send names they know, such as "whisper-1", so an unknown name selects the first
        worker of the kind.

        Args:
            suits: whether a worker of the kind can do what the request needs.

        Raises:
            ServiceError: under `strict_model`, no worker has the name.
        """
        workers = list(filter(suits, self.of_kind(kind)))
        for worker in workers:
            if model is not None and model in worker.names():
                return worker
        if workers and model and self._strict_model:
            self._refuse(model)
        return workers[0] if workers else None

    def resolve(self, model: str | None) -> TextWorker:
        """Return the text worker that a request's `model` names.

        Raises:
            ServiceError: there is none, or the name belongs to another kind of worker, or under
                `strict_model` to no worker.
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
        if any(worker.card is None and worker.state != "failed" for worker in self.workers):
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
        paths = ", ".join(path for kind in kinds for path in self._paths[kind]) or "nothing yet"
        raise ServiceError("not_implemented", f"This server has no text model. It serves {paths}.")
