"""How fast this machine has been going, so that the engine can plan its next step.

Measured, not configured: the same code runs on a laptop and on a Mac Studio. Engine thread only.
"""

from __future__ import annotations

import time

# Weight of the newest measurement.
_SMOOTHING = 0.3
# A few tokens take as long as one: reading the weights is what costs. They say nothing of the
# speed of a chunk.
_TELLING_TOKENS = 32


class Pace:
    """How fast this machine has been going: what a decode step takes, what prefill does.

    Attributes:
        step_s: seconds between the tokens of a stream, without prefill in between.
        prefill_tokens_per_s: of one chunk.
    """

    def __init__(self) -> None:
        self.step_s = 0.0
        self.prefill_tokens_per_s = 500.0
        self._last_s: float | None = None

    def note_step(self) -> None:
        """Note that the tokens of a step have come."""
        now = time.monotonic()
        if self._last_s is not None:
            took_s = now - self._last_s
            self.step_s += _SMOOTHING * (took_s - self.step_s) if self.step_s else took_s
        self._last_s = now

    def note_prefill(self, tokens: int, took_s: float) -> None:
        """Note a prefill chunk; the step it lies in says nothing about decoding."""
        self.pause()
        if tokens < _TELLING_TOKENS:
            return
        speed = tokens / max(took_s, 1e-6)
        self.prefill_tokens_per_s += _SMOOTHING * (speed - self.prefill_tokens_per_s)

    def pause(self) -> None:
        """Forget when the last tokens came."""
        self._last_s = None
