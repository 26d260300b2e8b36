"""Commands of other threads to the engine, executed between two steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from workers.text.engine.sequence import Sequence


@dataclass(frozen=True)
class SubmitCommand:
    sequence: Sequence


@dataclass(frozen=True)
class CancelCommand:
    """Cancels a request; without a key, all of that gateway's."""

    gateway_id: str
    key: int | None = None


@dataclass(frozen=True)
class StopCommand:
    """Ends the thread."""


@dataclass(frozen=True)
class EngineCall:
    """Calls `work` on the engine thread, then `done` with its result."""

    work: Callable[[], object]
    done: Callable[[object], None]


Command = SubmitCommand | CancelCommand | EngineCall | StopCommand
