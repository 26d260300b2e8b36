"""What an engine is given: the parts it runs, and the callbacks through which it reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from workers.text.engine.active_requests import Frames
from workers.text.engine.reuse import Reuse
from workers.text.engine.scheduler import Scheduler
from workers.text.model import TextModel


@dataclass(frozen=True)
class EngineParts:
    """What an engine runs."""

    model: TextModel
    scheduler: Scheduler
    reuse: Reuse


class EngineObserver(Protocol):
    """Callbacks of the engine. Every method is called on the engine thread."""

    def ready(self, parts: EngineParts) -> None:
        """The model is loaded and accepts sequences."""

    def publish(self, step: int, frames: Frames) -> None:
        """Deliver what a step did, per gateway id."""

    def load_changed(self) -> None:
        """The latest snapshot has another load than the one before."""

    def rest(self, idle_s: float) -> None:
        """Nothing runs or waits; called about twice a second, with the time since the last work."""

    def ended(self, failure: BaseException | None) -> None:
        """The thread is ending, because of a failure or after `stop`."""
