"""Priority classes with aging, so that low-priority requests never starve. Pure."""

from __future__ import annotations

from typing import Final

from shared.pb import common_pb2 as pb

# A request moves up one class each time it has waited this long.
AGING_S: Final = 30.0


def effective_class(priority: int, waited_s: float) -> int:
    """Return the priority class after aging; the smallest number is served first."""
    return max(priority - int(waited_s / AGING_S), pb.PRIORITY_HIGH)
