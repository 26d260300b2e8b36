"""Measured speed of decode and prefill, by which the engine plans its next step.

Measured, not configured: the same code runs on a laptop and on a Mac Studio. Engine thread only.
"""

from __future__ import annotations

import time
from collections.abc import Callable

# Weight of the newest measurement.
_SMOOTHING = 0.3
# Smallest part of a usual chunk's time that grows with its tokens. If all of it were attributed to
# the fixed cost (reading the weights, launching), the next chunk would have no limit.
_LEAST_SLOPE = 0.5
# Before anything is measured: low, since the first chunk may also compile kernels.
_FIRST_TOKENS_PER_S = 1.0


class Pace:
    """Time of a decode step, and of a prefill chunk by its tokens.

    A chunk has a fixed cost and a cost per token; both are fitted to past chunks, with
    exponentially decreasing weight.

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
        """Note that the tokens of a step were collected."""
        now = self._clock()
        if self._last_s is not None:
            took_s = max(0.0, now - self._last_s - self._prefilled_s)
            self.step_s += _SMOOTHING * (took_s - self.step_s) if self.step_s else took_s
        self._last_s, self._prefilled_s = now, 0.0

    def note_prefill(self, tokens: int, took_s: float) -> None:
        """Note a prefill chunk; its time is subtracted from the step it is part of."""
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
        """Return how many tokens can be prefilled within `span_s`."""
        if not self._tokens:
            return int(span_s * _FIRST_TOKENS_PER_S)
        whole_s = max(self._took_s, 1e-9) / self._tokens
        token_s = self._covariance / self._variance if self._variance else whole_s
        token_s = min(max(token_s, _LEAST_SLOPE * whole_s), whole_s)
        base_s = self._took_s - token_s * self._tokens
        return max(0, int((span_s - base_s) / token_s))

    def pause(self) -> None:
        """Start measuring steps anew after the engine was idle."""
        self._last_s = None
