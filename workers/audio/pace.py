"""How much work one step of an audio model may hold, from the measured pace of the device.

A step delays every other call of the worker, and one of minutes looks like a hang. Runs on the
model thread.
"""

from __future__ import annotations

# A step is planned to take at most this long: far below the limits of gateway and supervisor, since
# a busy machine may be several times slower than it was when it was measured.
_STEP_S = 15.0
# Steps get longer while one of twice the size would take less than this.
_GROW_BELOW_S = 5.0
# Weight of the newest measurement.
_SMOOTHING = 0.3


class StepSize:
    """The most units of work in one step.

    Changes by factors of two, and with a distance between growing and shrinking, so that the same
    input is split alike as long as the device's pace stays about the same.

    Args:
        size: before anything is measured.

    Attributes:
        size: in units.
    """

    def __init__(self, smallest: float, size: float, largest: float) -> None:
        self.size = size
        self._smallest = smallest
        self._largest = largest
        self._unit_s = 0.0

    def note(self, units: float, took_s: float) -> None:
        """Note a step's size and duration, and adapt the size of the next."""
        unit_s = took_s / max(units, 1e-3)
        self._unit_s += _SMOOTHING * (unit_s - self._unit_s) if self._unit_s else unit_s
        while self.size > self._smallest and self.size * self._unit_s > _STEP_S:
            self.size = max(self._smallest, self.size / 2)
        while self.size < self._largest and 2 * self.size * self._unit_s < _GROW_BELOW_S:
            self.size = min(self._largest, 2 * self.size)
