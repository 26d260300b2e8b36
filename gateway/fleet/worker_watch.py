"""What the gateway knows of one worker process of any kind.

Owns its state as heartbeats report it, its card and its counters.
The RPCs are in the clients. Runs on the gateway's event loop; time is injected.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Final, Literal, Protocol

from shared import start_failure
from shared.errors import ServiceError
from shared.pb import worker_pb2

log = logging.getLogger(__name__)

# Heartbeats arrive every second; a worker silent for longer gets no new requests.
_SILENCE_S: Final = 10.0
# Heartbeats go on during a step. Steps are made to take a few seconds at most; requests wait here
# while one takes longer than this, since the process may be killed for it.
_BUSY_S: Final = 10.0

# Codes of a failure of the worker, not of the request: it is gone, about to exit, or has lost
# track of this gateway. Another attempt may succeed.
LOSS_CODES: Final = frozenset(
    {"worker_unavailable", "engine_failed", "worker_hung", "watch_missing"}
)

# busy: in a long step.
# hung: silent, or past its limit on a step, and about to be killed.
# failed: it can't start, and its supervisor tries again from time to time.
State = Literal["loading", "ready", "busy", "hung", "down", "failed"]
# In these a worker serves requests, if need be after its present step.
LIVE: Final[Collection[State]] = ("ready", "busy")


class WorkerObserver(Protocol):
    """Receives what a client learns of its worker."""

    def on_card(self, card: worker_pb2.ModelCard) -> None:
        """The model is loaded."""

    def on_heartbeat(self, beat: worker_pb2.Heartbeat) -> None:
        """A heartbeat arrived; there is at least one per second."""

    def on_doubt(self) -> None:
        """A request failed with one of `LOSS_CODES`: the worker may be about to exit."""

    def on_lost(self, error: ServiceError) -> None:
        """The worker can't be reached, or is still loading (code `model_loading`)."""


class WorkerWatch:
    """One worker process: its last report. Observes the client of that process.

    Attributes:
        failure: why it can't start; empty otherwise.
    """

    def __init__(
        self, address: str, on_change: Callable[[], None], now_s: Callable[[], float]
    ) -> None:
        self.address = address
        self.card: worker_pb2.ModelCard | None = None
        self.beat: worker_pb2.Heartbeat | None = None
        self.counters = Counters()
        self.failure = ""
        self._file = start_failure.find_file(address)
        self._state: State = "loading"
        self._on_change = on_change
        self._now_s = now_s
        self._heard_s = 0.0
        self._hang: ServiceError | None = None
        self._reports_loading = False

    @property
    def state(self) -> State:
        """The current state."""
        if self._state != "ready" or self.beat is None:
            return "failed" if self.failure else self._state
        age_s = self.beat.step_age_ms / 1000
        if self._find_hang(self.beat, age_s) is not None:
            return "hung"
        return "busy" if age_s > _BUSY_S else "ready"

    @property
    def ready(self) -> bool:
        """Whether requests may be forwarded to it."""
        return self.state == "ready"

    @property
    def live(self) -> bool:
        """Whether it serves requests."""
        return self.state in LIVE

    @property
    def expected(self) -> bool:
        """Whether it serves requests, or will once it has loaded."""
        return self._reports_loading or self.live

    def explain_loss(self, error: ServiceError) -> ServiceError:
        """Return the failure of a request that ran here: `worker_hung` if that was the reason."""
        if error.code not in LOSS_CODES:
            return error
        if self.beat is not None:
            self._note_hang(self.beat)
        return self._hang or error

    def on_card(self, card: worker_pb2.ModelCard) -> None:
        """Store the card; it is kept when the process exits."""
        self.card = card

    def on_heartbeat(self, beat: worker_pb2.Heartbeat) -> None:
        """Store the state; the first heartbeat makes the worker ready."""
        self.beat, self.failure = beat, ""
        self._hang, self._reports_loading = None, False
        self._heard_s = self._now_s()
        self.counters.update(beat.instance, beat.counters)
        if self._state != "ready" and not beat.draining:
            log.info("worker ready: %s at %s", self.card and self.card.name, self.address)
        self._state = "down" if beat.draining else "ready"
        self._on_change()

    def on_doubt(self) -> None:
        """Forward nothing until the next heartbeat."""
        self._state = "down"

    def on_lost(self, error: ServiceError) -> None:
        """Mark the worker as lost, or as not loaded yet."""
        if self._state == "ready":
            log.warning("worker lost: %s (%s)", self.address, error.code)
        self._reports_loading = error.code == "model_loading"
        self._state = "loading" if self.card is None or self._reports_loading else "down"
        if self.beat is not None:
            self._note_hang(self.beat)
        self.beat = None
        self._read_failure()
        self._on_change()

    def _read_failure(self) -> None:
        """Read what the supervisor says; called at every attempt to connect."""
        found = start_failure.read(self._file) if self._file is not None else None
        reason = found.reason if found is not None else ""
        if reason and reason != self.failure:
            log.error("the worker at %s can't start: %s", self.address, reason)
        self.failure = reason

    def _note_hang(self, beat: worker_pb2.Heartbeat) -> None:
        """Store whether the process hung when it was lost."""
        self._hang = self._find_hang(beat, beat.step_age_ms / 1000 + self._now_s() - self._heard_s)

    def _find_hang(self, beat: worker_pb2.Heartbeat, step_age_s: float) -> ServiceError | None:
        """Return the error of a process that hangs; None if it does not."""
        if self._now_s() - self._heard_s > _SILENCE_S:
            return ServiceError("worker_hung", "The model worker stopped responding.")
        limit_s = beat.step_timeout_ms / 1000
        if 0 < limit_s < step_age_s:
            return ServiceError(
                "worker_hung",
                "The model worker was stopped because a step of the request took longer than "
                f"{limit_s:g} s (--step-timeout).",
            )
        return None


class Counters:
    """Counters of one address, summed over all processes that ran there."""

    _NAMES: Final = tuple(field.name for field in worker_pb2.Counters.DESCRIPTOR.fields)

    def __init__(self) -> None:
        self._instance = ""
        self._base = dict.fromkeys(self._NAMES, 0)
        self._last = dict.fromkeys(self._NAMES, 0)

    def update(self, instance: str, counters: worker_pb2.Counters) -> None:
        """Store the counters of a process, which start at 0 with it."""
        if instance != self._instance:
            self._base, self._instance = self.values(), instance
        self._last = {name: getattr(counters, name) for name in self._NAMES}

    def values(self) -> dict[str, int]:
        """Return each counter by its name in worker.proto."""
        return {name: self._base[name] + self._last[name] for name in self._NAMES}
