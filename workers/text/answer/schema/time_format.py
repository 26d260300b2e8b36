"""Patterns for the formats of dates and times, where the engine's own are too wide.

The engine accepts 29 February in every year, a year 0, and a leap second in every minute. Pure.
"""

from __future__ import annotations

from typing import Final

_YEAR: Final = r"(\d{3}[1-9]|\d\d[1-9]\d|\d[1-9]\d\d|[1-9]\d{3})"
_REAL_DAYS: Final = (
    rf"({_YEAR}-((0[13-9]|1[0-2])-\d\d|02-([01]\d|2[0-8]))"
    r"|(\d\d(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)-02-29)"
)


def _leap_seconds() -> str:
    """Return a pattern for 23:59:60 UTC in local times whose offset is whole or half hours."""
    ends = []
    for minutes in range(-24 * 60 + 30, 24 * 60, 30):
        local = (23 * 60 + 59 + minutes) % (24 * 60)
        sign, size = "-" if minutes < 0 else r"\+", abs(minutes)
        zone = rf"{sign}{size // 60:02}:{size % 60:02}"
        ends.append(rf"{local // 60:02}:{local % 60:02}:60(\.\d+)?{zone}")
    return rf"23:59:60(\.\d+)?([Zz]|-00:00)|{'|'.join(ends)}"


# Without the leap second, anything that the engine accepts.
_REAL_TIMES: Final = rf"(\d\d:\d\d:[0-5][\s\S]*|{_leap_seconds()})"

TIME_PATTERNS: Final = {
    "date": f"^{_REAL_DAYS}$",
    "time": f"^{_REAL_TIMES}$",
    "date-time": rf"^{_REAL_DAYS}[Tt ]{_REAL_TIMES}$",
}
