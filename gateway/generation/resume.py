"""Resuming a request after the loss of its worker.

Owns the results of earlier attempts, the decision on another attempt, and the rule for requests
that crash workers; it submits nothing. The worker replays given token ids without events, so only
the events that every attempt sends once are filtered here. Pure.

The rule: a loss is charged to each request that was in the batch without a new token in that
attempt, a hang twice; a new token clears the charges. A request with two charges is isolated: it
runs one at a time, and fails when its worker is lost again, so that the other requests can go on.
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
# A request that crashes workers is found after three losses; two of them cause six.
_MOST_LOST_SUBMITS: Final = 6


class History:
    """The past attempts of a request."""

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
        """Whether an earlier attempt was accepted."""
        return self._resumes > 0

    def prepare(self, request: pb.GenerateRequest) -> None:
        """Turn a request into its next attempt."""
        request.attempt += 1
        request.forced_ids[:] = self._token_ids
        request.isolate = self.isolate

    def absorb(self, box: Mailbox, error: ServiceError, now_s: float) -> None:
        """Record a failed attempt.

        Raises:
            ServiceError: no other attempt may follow: `error` itself, `engine_failed`, or
                `worker_hung`.
        """
        if error.code not in LOSS_CODES:
            raise error
        if self.accepted is None:
            self._absorb_submit(error)
            return
        self._token_ids += box.token_ids
        self._add_timings(box, now_s)
        self._charge(box, error)
        self._resumes += 1
        if self._resumes > _MOST_RESUMES:
            raise ServiceError("engine_failed", "The model worker failed too many times.")

    def _absorb_submit(self, error: ServiceError) -> None:
        """Record a loss before acceptance: the prompt itself may crash workers."""
        if error.code != "watch_missing":
            self._lost_submits += 1
        if self._lost_submits > _MOST_LOST_SUBMITS:
            raise error

    def amend(self, batch: Sequence[pb.Event]) -> Sequence[Item]:
        """Return a batch of events as a single attempt would have sent it."""
        if self.resumed:
            if batch[-1].HasField("finished"):
                self._amend_finished(batch[-1].finished)
            for event in batch:
                if event.delta.HasField("timings"):
                    self._add_up(event.delta.timings)
            return [event for event in batch if self._is_new(event)]
        if self._started is None:
            for event in batch:
                self._is_new(event)
        return batch

    def _is_new(self, event: pb.Event) -> bool:
        """Store the first Started; a later one and the progress of a replay are dropped."""
        if event.HasField("started"):
            if self._started is not None:
                return False
            self._started = event.started
        return not (self.resumed and event.HasField("prompt_progress"))

    def _amend_finished(self, finished: pb.Finished) -> None:
        """Set prompt and cache counts to those of the first attempt, and sum durations."""
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

    def _charge(self, box: Mailbox, error: ServiceError) -> None:
        if box.token_ids:
            self._charges = 0
        elif box.started_s is not None:
            hung = error.code == "worker_hung"
            if self.isolate and hung:
                raise error
            if self.isolate:
                raise ServiceError(
                    "engine_failed", "The model worker failed on this request repeatedly."
                )
            self._charges += _CHARGES_TO_ISOLATE if hung else 1
        self.isolate = self._charges >= _CHARGES_TO_ISOLATE

    def _add_timings(self, box: Mailbox, now_s: float) -> None:
        """Add durations measured here, since the lost worker can't report its own."""
        started_s = box.started_s or now_s
        first_s = box.first_token_s or now_s
        last_s = box.last_token_s or first_s
        self._timings.queue_ms += (started_s - box.opened_s) * 1000
        self._timings.prompt_ms += (first_s - started_s) * 1000
        self._timings.predicted_ms += (last_s - first_s) * 1000
