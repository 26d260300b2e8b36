"""What other threads may ask of the engine. Commands are looked at between two steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from workers.text.engine.sequence import Sequence


@dataclass(frozen=True)
class SubmitCommand:
    """A sequence to be queued."""

    sequence: Sequence


@dataclass(frozen=True)
class CancelCommand:
    """A request to be dropped; without a key, all of that gateway's."""

    gateway_id: str
    key: int | None = None


@dataclass(frozen=True)
class StopCommand:
    """The end of the thread."""


@dataclass(frozen=True)
class EngineCall:
    """Something to be done between two steps, on the engine thread; `done` gets the result."""

    work: Callable[[], object]
    done: Callable[[object], None]


Command = SubmitCommand | CancelCommand | EngineCall | StopCommand
