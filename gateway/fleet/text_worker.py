"""A worker that generates text: replicas of one model behind one queue.

Owns the sums over its replicas and the choice of one for calls that are not queued. The course of
a request is generation/generate.py's. Runs on the gateway's event loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gateway.fleet.admission import Admission
from gateway.fleet.replica import Replica
from gateway.fleet.text_client import TextClient
from gateway.fleet.worker import Worker
from shared.fleet import WorkerEntry


class TextWorker(Worker):
    """A worker that generates text."""

    replicas: Sequence[Replica]

    def __init__(
        self, entry: WorkerEntry, replicas: Sequence[Replica], admission: Admission
    ) -> None:
        super().__init__(entry, replicas)
        self.admission = admission

    def counters(self) -> Counter[str]:
        """Return the counters summed over replicas, those of earlier processes included."""
        total: Counter[str] = Counter()
        for replica in self.replicas:
            total.update(replica.counters.values())
        return total

    def clients(self) -> Sequence[TextClient]:
        """Return the clients of the replicas that are ready or busy."""
        return [replica.client for replica in self._live()]

    @property
    def slots(self) -> int:
        """Slots of all replicas that are ready or busy."""
        cards = [replica.card for replica in self._live()]
        return sum(card.max_batch_size for card in cards if card is not None)

    def client(self) -> TextClient:
        """Return the client of the least loaded replica, one that is ready if possible.

        Raises:
            ServiceError: none is ready or busy.
        """
        self.require_ready()
        return min(self._live(), key=lambda each: (not each.ready, len(each.forwarded))).client

    def _live(self) -> list[Replica]:
        return [replica for replica in self.replicas if replica.live]

    def _clients(self) -> Sequence[TextClient]:
        return [replica.client for replica in self.replicas]
