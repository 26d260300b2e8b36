"""How fast this machine has been going, so that the engine can plan its next step.

Measured, not configured: the same code runs on a laptop and on a Mac Studio. Engine thread only.
"""

from __future__ import annotations

import time
from collections.abc import Callable

# Weight of the newest measurement.
_SMOOTHING = 0.3
# Part of a usual chunk's time that grows with its tokens, at least. What a chunk costs whatever
# its size (reading the weights, launching) must not be taken for all of it: the next chunk would
# be without bounds.
_LEAST_SLOPE = 0.5
# Before anything is measured.
_FIRST_TOKENS_PER_S = 500.0


class Pace:
    """How fast this machine has been going: what a decode step takes, what a prefill chunk does.

    A chunk takes some time whatever its size and more for every token; both are fitted to the
    chunks there were, the newer the weightier.

    Args:
        clock: seconds, monotonic.

    Attributes:
        step_s: seconds between the tokens of a stream, without prefill in between.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.step_s = 0.0
        self._clock = clock
        self._last_s: float | None = None
        self._prefilled_s = 0.0
        self._tokens = 0.0
        self._took_s = 0.0
        self._variance = 0.0
        self._covariance = 0.0

    def note_step(self) -> None:
        """Note that the tokens of a step have come."""
        now = self._clock()
        if self._last_s is not None:
            took_s = max(0.0, now - self._last_s - self._prefilled_s)
            self.step_s += _SMOOTHING * (took_s - self.step_s) if self.step_s else took_s
        self._last_s, self._prefilled_s = now, 0.0

    def note_prefill(self, tokens: int, took_s: float) -> None:
        """Note a prefill chunk; what it took is no part of the step it lies in."""
        self._prefilled_s += took_s
        if not self._tokens:
            self._tokens, self._took_s = tokens, took_s
            return
        more_tokens, more_s = tokens - self._tokens, took_s - self._took_s
        self._tokens += _SMOOTHING * more_tokens
        self._took_s += _SMOOTHING * more_s
        keep = 1 - _SMOOTHING
        self._variance = keep * (self._variance + _SMOOTHING * more_tokens**2)
        self._covariance = keep * (self._covariance + _SMOOTHING * more_tokens * more_s)

    def prefill_tokens(self, span_s: float) -> int:
        """Return how many tokens a chunk may have that takes no longer than `span_s`."""
        if not self._tokens:
            return int(span_s * _FIRST_TOKENS_PER_S)
        whole_s = max(self._took_s, 1e-9) / self._tokens
        token_s = self._covariance / self._variance if self._variance else whole_s
        token_s = min(max(token_s, _LEAST_SLOPE * whole_s), whole_s)
        base_s = self._took_s - token_s * self._tokens
        return max(0, int((span_s - base_s) / token_s))

    def pause(self) -> None:
        """Forget when the last tokens came."""
        self._last_s = None
