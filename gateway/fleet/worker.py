"""One entry of the fleet as the gateway sees it: the replicas of one model.

Owns the names of a worker and whether it accepts requests. The state of one process is
worker_watch.py's; text_worker.py and unary_worker.py add what their kinds need. Runs on the
gateway's event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

from gateway.fleet.worker_watch import LIVE, State, WorkerWatch
from shared.errors import ServiceError
from shared.fleet import WorkerEntry
from shared.pb import worker_pb2

_BEST_FIRST: Final[Sequence[State]] = ("ready", "busy", "loading", "hung", "down", "failed")
# Its supervisor tries again in a minute, or when something has changed.
_RETRY_FAILED_S: Final = 30.0


class WorkerClient(Protocol):
    """The connection to one replica."""

    async def run(self) -> None:
        """Observe the replica until cancelled."""

    async def close(self) -> None: ...


class Worker:
    """The part that all kinds share."""

    def __init__(self, entry: WorkerEntry, replicas: Sequence[WorkerWatch]) -> None:
        self.entry = entry
        self.replicas = replicas

    @property
    def card(self) -> worker_pb2.ModelCard | None:
        """The model card; None until a replica has been ready once."""
        return next((r.card for r in self.replicas if r.card is not None), None)

    @property
    def state(self) -> State:
        """The best state of its replicas."""
        return min((replica.state for replica in self.replicas), key=_BEST_FIRST.index)

    @property
    def failure(self) -> str:
        """Why it can't start; empty while a replica may."""
        return self.replicas[0].failure if self.state == "failed" else ""

    def names(self) -> Iterator[str]:
        """Yield every name of this worker; those of the fleet file are known before it is ready."""
        if self.card is not None:
            yield self.card.name
            yield from self.card.aliases
        yield self.entry.name
        alias = self.entry.options.get("alias", ())
        yield from alias.split(",") if isinstance(alias, str) else alias
        yield from (Path(model).name for model in self.entry.models)

    def require_ready(self) -> worker_pb2.ModelCard:
        """Return the card if the worker accepts requests; while it is busy they wait for it.

        Raises:
            ServiceError: `model_loading` or `worker_unavailable`.
        """
        self.refuse_failed()
        card = self.card
        if card is not None and self.state in LIVE:
            return card
        if card is None:
            raise ServiceError("model_loading", "Loading model", retry_after_s=1.0)
        raise ServiceError(
            "worker_unavailable",
            "The model worker is restarting. Please try again.",
            retry_after_s=1.0,
        )

    def refuse_failed(self) -> None:
        """Refuse requests of a worker that can't start.

        Raises:
            ServiceError: `worker_unavailable`.
        """
        if self.state == "failed":
            raise ServiceError(
                "worker_unavailable",
                f"The worker '{self.entry.name}' can't start: {self.failure}.",
                retry_after_s=_RETRY_FAILED_S,
            )

    def start(self) -> list[asyncio.Task[None]]:
        """Connect to every replica; return the tasks."""
        return [asyncio.create_task(client.run()) for client in self._clients()]

    async def close(self) -> None:
        for client in self._clients():
            await client.close()

    def _clients(self) -> Sequence[WorkerClient]:
        return ()
