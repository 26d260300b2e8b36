"""Which workers there are, what each one last said, and which of them a model name means.

Owns the list of workers and the meaning of names; the state of one process is replica.py's, the
queue in front of a worker admission.py's. Runs on the gateway's event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from gateway.admission import Admission
from gateway.replica import Replica, State
from gateway.text_client import TextClient
from shared.errors import ServiceError
from shared.fleet import WorkerEntry
from shared.pb import worker_pb2


class Worker:
    """One entry of the fleet: replicas of one model behind one queue."""

    def __init__(
        self, entry: WorkerEntry, replicas: Sequence[Replica], admission: Admission
    ) -> None:
        self.entry = entry
        self.replicas = replicas
        self.admission = admission

    @property
    def card(self) -> worker_pb2.ModelCard | None:
        """The model card; None until a replica has been ready once."""
        return next((r.card for r in self.replicas if r.card is not None), None)

    @property
    def state(self) -> State:
        """The best state of its replicas."""
        states = {replica.state for replica in self.replicas}
        return "ready" if "ready" in states else "loading" if "loading" in states else "down"

    def names(self) -> Iterator[str]:
        """Yield every name that means this worker; those of the fleet file also while it loads."""
        if self.card is not None:
            yield self.card.name
            yield from self.card.aliases
        yield self.entry.name
        alias = self.entry.options.get("alias", ())
        yield from alias.split(",") if isinstance(alias, str) else alias
        yield Path(self.entry.options.get("model") or self.entry.name).name

    def clients(self) -> Sequence[TextClient]:
        """Return the way to each replica that is ready."""
        return [replica.client for replica in self.replicas if replica.ready]

    def client(self) -> TextClient:
        """Return the way to the ready replica that has the least to do.

        Raises:
            ServiceError: none is ready.
        """
        self.require_ready()
        ready = [replica for replica in self.replicas if replica.ready]
        return min(ready, key=lambda replica: len(replica.forwarded)).client

    def require_ready(self) -> worker_pb2.ModelCard:
        """Return the card of a worker that takes requests now.

        Raises:
            ServiceError: it loads for the first time, or is away.
        """
        card = self.card
        if card is not None and self.state == "ready":
            return card
        if card is None:
            raise ServiceError("model_loading", "Loading model", retry_after_s=1.0)
        raise ServiceError(
            "worker_unavailable",
            "The model worker is restarting. Please try again.",
            retry_after_s=1.0,
        )


class Registry:
    """All workers of the fleet.

    Args:
        workers: the fleet's entries, each with the gRPC addresses of its replicas.
        queue_limit: requests that may wait per worker.
        patience_s: how long they wait for a worker that is away.
        strict_model: refuse unknown model names.
        now_s: a monotonic clock.
    """

    def __init__(
        self,
        workers: Sequence[tuple[WorkerEntry, Sequence[str]]],
        *,
        queue_limit: int,
        patience_s: float,
        strict_model: bool,
        now_s: Callable[[], float],
    ) -> None:
        gateway_id = secrets.token_hex(8)
        self._strict_model = strict_model
        self._tasks: list[asyncio.Task[None]] = []
        self.workers: list[Worker] = []
        for entry, addresses in workers:
            admission = Admission(queue_limit, patience_s, now_s)
            replicas = [Replica(a, gateway_id, admission.pump, now_s) for a in addresses]
            admission.replicas = replicas
            self.workers.append(Worker(entry, replicas, admission))

    def start(self) -> None:
        """Start talking to every worker."""
        for replica in self._replicas():
            self._tasks.append(asyncio.create_task(replica.client.run()))

    async def stop(self) -> None:
        """End every conversation."""
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks, return_exceptions=True)
        for replica in self._replicas():
            await replica.client.close()

    def resolve(self, model: str | None) -> Worker:
        """Return the worker a request's `model` means.

        Raises:
            ServiceError: there is none, or under `strict_model` none of that name.
        """
        if model:
            for worker in self.workers:
                if model in worker.names():
                    return worker
            if self._strict_model:
                self._refuse(model)
        return self.default()

    def _refuse(self, model: str) -> NoReturn:
        if any(worker.card is None for worker in self.workers):
            raise ServiceError("model_loading", "Loading model", retry_after_s=1.0)
        raise ServiceError("model_not_found", f"The model '{model[:200]}' does not exist.", "model")

    def default(self) -> Worker:
        """Return the first text worker.

        Raises:
            ServiceError: the fleet has none.
        """
        for worker in self.workers:
            if worker.entry.kind == "text":
                return worker
        raise ServiceError("not_implemented", "No text model is configured on this server.")

    def _replicas(self) -> Iterator[Replica]:
        for worker in self.workers:
            yield from worker.replicas
