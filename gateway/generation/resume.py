"""Going on with a request after its worker was lost.

Owns what earlier attempts gave, whether another one may follow, and the rule for requests that
kill workers; it submits nothing itself. The worker replays the ids it is given in silence, so
what is hidden here is only what every attempt says once. Pure.

The rule: a loss is charged to a request that was in the batch and got no new token in that
attempt; a new token clears the charge. A request with two charges runs alone from then on, one
such request at a time, and one that is lost alone is failed: its neighbours go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.fleet.mailbox import Mailbox
from gateway.fleet.worker_watch import LOSS_CODES
from gateway.generation.fold import Item
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb

_CHARGES_TO_ISOLATE: Final = 2
_MOST_RESUMES: Final = 16
# A poisonous neighbour takes three workers along before it is found out, two of them six.
_MOST_LOST_SUBMITS: Final = 6


class History:
    """What a request has been through."""

    def __init__(self) -> None:
        self.accepted: pb.Accepted | None = None
        self.isolate = False
        self._token_ids: list[int] = []
        self._started: pb.Started | None = None
        self._timings = pb.Timings()
        self._charges = 0
        self._resumes = 0
        self._lost_submits = 0

    @property
    def resumed(self) -> bool:
        """Whether an attempt was accepted before the present one."""
        return self._resumes > 0

    def prepare(self, request: pb.GenerateRequest) -> None:
        """Make a request the next attempt of itself."""
        request.attempt += 1
        request.forced_ids[:] = self._token_ids
        request.isolate = self.isolate

    def absorb(self, box: Mailbox, error: ServiceError, now_s: float) -> None:
        """Take in an attempt that failed.

        Raises:
            ServiceError: there can be no other: `error` itself, or `engine_failed`.
        """
        if error.code not in LOSS_CODES:
            raise error
        if self.accepted is None:
            self._absorb_submit(error)
            return
        self._token_ids += box.token_ids
        self._add_timings(box, now_s)
        self._charge(box)
        self._resumes += 1
        if self._resumes > _MOST_RESUMES:
            raise ServiceError("engine_failed", "The model worker failed too many times.")

    def _absorb_submit(self, error: ServiceError) -> None:
        """Take in a loss before anything ran: the prompt itself may be what kills workers."""
        if error.code != "watch_missing":
            self._lost_submits += 1
        if self._lost_submits > _MOST_LOST_SUBMITS:
            raise error

    def amend(self, batch: Sequence[pb.Event]) -> Sequence[Item]:
        """Return a batch of events as one uninterrupted attempt would have given it."""
        if self.resumed:
            if batch[-1].HasField("finished"):
                self._amend_finished(batch[-1].finished)
            for event in batch:
                if event.delta.HasField("timings"):
                    self._add_up(event.delta.timings)
            return [event for event in batch if self._is_news(event)]
        if self._started is None:
            for event in batch:
                self._is_news(event)
        return batch

    def _is_news(self, event: pb.Event) -> bool:
        """Note the first Started; a later one, and the progress of a replay, are no news."""
        if event.HasField("started"):
            if self._started is not None:
                return False
            self._started = event.started
        return not (self.resumed and event.HasField("prompt_progress"))

    def _amend_finished(self, finished: pb.Finished) -> None:
        """Prompt and cache counts are those of the first attempt, durations add up."""
        if self.accepted is not None:
            finished.usage.prompt_tokens = self.accepted.prompt_tokens
        if self._started is not None:
            finished.usage.cached_tokens = self._started.cached_tokens
        self._add_up(finished.timings)

    def _add_up(self, timings: pb.Timings) -> None:
        """Add the durations of earlier attempts."""
        for field in pb.Timings.DESCRIPTOR.fields:
            total = getattr(timings, field.name) + getattr(self._timings, field.name)
            setattr(timings, field.name, total)

    def _charge(self, box: Mailbox) -> None:
        if box.token_ids:
            self._charges = 0
        elif box.started_s is not None:
            if self.isolate:
                raise ServiceError(
                    "engine_failed", "The model worker failed on this request repeatedly."
                )
            self._charges += 1
        self.isolate = self._charges >= _CHARGES_TO_ISOLATE

    def _add_timings(self, box: Mailbox, now_s: float) -> None:
        """Reckon from outside what the lost worker can't tell any more."""
        started_s = box.started_s or now_s
        first_s = box.first_token_s or now_s
        last_s = box.last_token_s or first_s
        self._timings.queue_ms += (started_s - box.opened_s) * 1000
        self._timings.prompt_ms += (first_s - started_s) * 1000
        self._timings.predicted_ms += (last_s - first_s) * 1000
