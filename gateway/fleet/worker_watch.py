"""What a gateway knows of one worker process, whatever its kind.

Owns its state as heartbeats tell it, its card and its counters, and the rhythm in which a lost
one is looked for again. What is said to it is its kind's client's. Runs on the gateway's event
loop; time is injected.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Literal, NoReturn, Protocol

import grpc.aio

from shared.errors import ServiceError, from_rpc
from shared.pb import worker_pb2

log = logging.getLogger(__name__)

# Heartbeats come every second; a worker that misses this many is not given new requests.
_SILENCE_S: Final = 10.0
# Its event loop may beat on while the engine hangs in a step. Long chunks of a prompt take
# seconds on slow machines; nothing but a fault takes this long.
_HANG_S: Final = 30.0
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 0.25

# Codes of a failure of the worker, not of the request: it is gone, about to exit, or has lost
# track of this gateway. Another attempt may succeed.
LOSS_CODES: Final = frozenset({"worker_unavailable", "engine_failed", "watch_missing"})

State = Literal["loading", "ready", "down"]


class WorkerObserver(Protocol):
    """Who is told what becomes known of a worker."""

    def on_card(self, card: worker_pb2.ModelCard) -> None:
        """Its model is loaded."""

    def on_heartbeat(self, beat: worker_pb2.Heartbeat) -> None:
        """It lives. Comes at least once a second."""

    def on_doubt(self) -> None:
        """A request failed in a way that says that the worker is about to go."""

    def on_lost(self, error: ServiceError) -> None:
        """It can't be reached, or is still loading (code `model_loading`)."""


class WorkerWatch:
    """One worker process: the last it said. Observes the client that talks to it."""

    def __init__(
        self, address: str, on_change: Callable[[], None], now_s: Callable[[], float]
    ) -> None:
        self.address = address
        self.card: worker_pb2.ModelCard | None = None
        self.beat: worker_pb2.Heartbeat | None = None
        self.counters = Counters()
        self._state: State = "loading"
        self._on_change = on_change
        self._now_s = now_s
        self._heard_s = 0.0

    @property
    def state(self) -> State:
        """What it can do now; a worker that has fallen silent or hangs is down."""
        if self._state != "ready" or self.beat is None:
            return self._state
        silent = self._now_s() - self._heard_s > _SILENCE_S
        hangs = self.beat.step_age_ms > _HANG_S * 1000
        return "down" if silent or hangs else "ready"

    @property
    def ready(self) -> bool:
        """Whether a request may be forwarded now."""
        return self.state == "ready"

    def on_card(self, card: worker_pb2.ModelCard) -> None:
        """Keep the card; it outlives the process that sent it."""
        self.card = card

    def on_heartbeat(self, beat: worker_pb2.Heartbeat) -> None:
        """Note the state; a first one makes the worker ready."""
        self.beat = beat
        self._heard_s = self._now_s()
        self.counters.update(beat.instance, beat.counters)
        if self._state != "ready" and not beat.draining:
            log.info("worker ready: %s at %s", self.card and self.card.name, self.address)
        self._state = "down" if beat.draining else "ready"
        self._on_change()

    def on_doubt(self) -> None:
        """Send nothing more until the next heartbeat."""
        self._state = "down"

    def on_lost(self, error: ServiceError) -> None:
        """Note that it is gone, or not there yet."""
        if self._state == "ready":
            log.warning("worker lost: %s (%s)", self.address, error.code)
        self._state = "loading" if self.card is None or error.code == "model_loading" else "down"
        self.beat = None
        self._on_change()


class Counters:
    """Counters of one address, over all processes that answered there."""

    _NAMES: Final = tuple(field.name for field in worker_pb2.Counters.DESCRIPTOR.fields)

    def __init__(self) -> None:
        self._instance = ""
        self._base = dict.fromkeys(self._NAMES, 0)
        self._last = dict.fromkeys(self._NAMES, 0)

    def update(self, instance: str, counters: worker_pb2.Counters) -> None:
        """Take in what a process counts since its own start."""
        if instance != self._instance:
            self._base, self._instance = self.values(), instance
        self._last = {name: getattr(counters, name) for name in self._NAMES}

    def values(self) -> dict[str, int]:
        """Return each counter by its name in worker.proto."""
        return {name: self._base[name] + self._last[name] for name in self._NAMES}


async def keep_observing(
    talk: Callable[[], Awaitable[None]], lose: Callable[[ServiceError], bool]
) -> NoReturn:
    """Talk to a worker again and again, until cancelled.

    Args:
        talk: one conversation; returns or raises when it ends.
        lose: told why it ended; returns whether the worker had been live, and is tried at once.
    """
    pause_s = 0.0
    while True:
        try:
            await talk()
        except grpc.aio.AioRpcError as failure:
            error = from_rpc(failure)
        else:
            error = ServiceError("worker_unavailable", "The model worker went away.")
        pause_s = 0.0 if lose(error) else _longer(pause_s)
        await asyncio.sleep(pause_s)


def _longer(pause_s: float) -> float:
    return min(max(pause_s * 2, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
