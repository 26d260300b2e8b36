"""How long a supervisor waits: for a sign of life, for a step, before the next start.

Owns those limits and the verdicts that follow from them; acting on one is supervise.py's. Pure;
time is injected.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

from shared.lifecycle import LOADING_BEAT


@dataclasses.dataclass(frozen=True)
class SupervisionLimits:
    """How long what may take, in seconds."""

    step_timeout_s: float = 120.0
    silence_s: float = 30.0
    stop_grace_s: float = 3.0
    first_delay_s: float = 0.2
    longest_delay_s: float = 10.0
    healthy_after_s: float = 60.0
    poll_s: float = 0.5
    # A poll that comes this late was held up together with the whole machine.
    nap_s: float = 10.0


class BackOff:
    """The pause before each restart: doubles, and starts over after a long healthy run."""

    def __init__(self, limits: SupervisionLimits) -> None:
        self._limits = limits
        self._next_s = limits.first_delay_s

    def after(self, ran_s: float) -> float:
        """Return the pause after a child that ran for `ran_s`."""
        if ran_s >= self._limits.healthy_after_s:
            self._next_s = self._limits.first_delay_s
        pause_s = self._next_s
        self._next_s = min(pause_s * 2, self._limits.longest_delay_s)
        return pause_s


class ChildHealth:
    """What the child's beats say.

    Args:
        clock: monotonic seconds.
    """

    def __init__(
        self, limits: SupervisionLimits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._heard_s = self._looked_s = clock()
        self._step_age_s = 0.0
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take bytes from the child's end; the last whole line counts."""
        self._heard_s = self._clock()
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line + b"\n" == LOADING_BEAT:
                self._step_age_s = 0.0
            elif line.isdigit():
                self._step_age_s = int(line) / 1000

    def complaint(self) -> str | None:
        """Return why the child must be killed, or None. To be asked often.

        Time in which nobody asked does not count: a child can't beat either while a container is
        paused or a laptop sleeps.
        """
        now_s = self._clock()
        if now_s - self._looked_s > self._limits.nap_s:
            self._heard_s = now_s
        self._looked_s = now_s
        silent_s = now_s - self._heard_s
        if silent_s > self._limits.silence_s:
            return f"no sign of life for {silent_s:.1f} s"
        if self._step_age_s > self._limits.step_timeout_s:
            return (
                f"a step has taken {self._step_age_s:.1f} s "
                f"(--step-timeout {self._limits.step_timeout_s:g})"
            )
        return None
