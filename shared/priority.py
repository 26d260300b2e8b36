"""The order of service: priority classes, and aging, so that a low one never starves. Pure."""

from __future__ import annotations

from typing import Final

from shared.pb import common_pb2 as pb

# A request that has waited this long is ordered as one class higher.
AGING_S: Final = 30.0


def effective_class(priority: int, waited_s: float) -> int:
    """Return the class a request has grown into; a smaller number goes first."""
    return max(priority - int(waited_s / AGING_S), pb.PRIORITY_HIGH)
