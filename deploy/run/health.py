"""Limits of a supervisor: time without a heartbeat, length of a step, pause before a restart.

Owns the limits and decides when one is exceeded; supervise.py acts on it. Pure; time is injected.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

from shared.lifecycle import ERROR_PREFIX, LOADING_BEAT


@dataclasses.dataclass(frozen=True)
class SupervisionLimits:
    """Times in seconds.

    Attributes:
        silence_s: longest time without a heartbeat.
        healthy_after_s: run time after which the pause before a restart is short again.
        nap_s: a poll that is later than this means that the whole machine was suspended.
        retry_s: pause before another attempt to start a worker that can't start.
        settle_s: a start that has taken this long has probably got past the last failure.
        failed_starts: exits in a row, before it was ready, after which a worker counts as failed.
    """

    step_timeout_s: float = 120.0
    silence_s: float = 30.0
    stop_grace_s: float = 3.0
    first_delay_s: float = 0.2
    longest_delay_s: float = 10.0
    healthy_after_s: float = 60.0
    poll_s: float = 0.5
    nap_s: float = 10.0
    retry_s: float = 60.0
    settle_s: float = 10.0
    failed_starts: int = 3


class BackOff:
    """The pause before each restart: doubles, and is reset after a long run."""

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
    """State of a child, from its heartbeats.

    Args:
        clock: monotonic seconds.

    Attributes:
        ready: whether it has finished loading.
        error: why it can't start, as it says itself; empty if it has not.
    """

    def __init__(
        self, limits: SupervisionLimits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._heard_s = self._polled_s = clock()
        self._step_age_s = 0.0
        self._suspended_s = 0.0
        self._rest = b""
        self.ready = False
        self.error = ""

    def feed(self, data: bytes) -> None:
        """Take bytes that the child sent; the last complete line counts."""
        self._heard_s = self._clock()
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line + b"\n" == LOADING_BEAT:
                self._note_age(0.0)
            elif line.isdigit():
                self._note_age(int(line) / 1000)
                self.ready = True
            elif line.startswith(ERROR_PREFIX):
                self.error = line.removeprefix(ERROR_PREFIX).decode(errors="replace")

    def _note_age(self, age_s: float) -> None:
        """Store the time since the last progress of a step."""
        if age_s < max(self._step_age_s, self._suspended_s):
            # There has been progress since the suspension.
            self._suspended_s = 0.0
        self._step_age_s = age_s

    def find_failure(self) -> str | None:
        """Return why the child has to be killed, or None. Called at every poll.

        A long gap between two calls counts neither as silence nor as part of a step: while a
        container is paused or a laptop sleeps, the child does not run either.
        """
        now_s = self._clock()
        if now_s - self._polled_s > self._limits.nap_s:
            self._heard_s = now_s
            self._suspended_s += now_s - self._polled_s
        self._polled_s = now_s
        silent_s = now_s - self._heard_s
        if silent_s > self._limits.silence_s:
            return f"no heartbeat for {silent_s:.1f} s"
        step_age_s = self._step_age_s - self._suspended_s
        if step_age_s > self._limits.step_timeout_s:
            return (
                f"a step has run for {step_age_s:.1f} s "
                f"(--step-timeout {self._limits.step_timeout_s:g})"
            )
        return None
