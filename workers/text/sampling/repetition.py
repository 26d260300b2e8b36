"""Loop detection: a completion whose tail is one pattern over and over.

Pure. Ends generation early with the reason of an ordinary stop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Patterns longer than this are prose that happens to repeat; the bound keeps the scan short.
_MAX_PATTERN = 256


@dataclass(frozen=True)
class LoopRule:
    """When a tail counts as a loop.

    Attributes:
        max_size: longest pattern looked for; 0 is off.
        min_size: shortest one; if that is longer than the longest, patterns of that length alone.
        count: times it must stand in a row; below 2 is off.
    """

    max_size: int = 0
    min_size: int = 1
    count: int = 0

    def matches(self, ids: Sequence[int]) -> bool:
        """Return whether the tail of `ids` is a loop."""
        if self.count < 2:
            return False
        shortest = max(1, min(self.min_size, self.max_size))
        longest = min(self.max_size, _MAX_PATTERN, len(ids) // self.count)
        return any(_repeats(ids, size, self.count) for size in range(shortest, longest + 1))


def _repeats(ids: Sequence[int], size: int, count: int) -> bool:
    if ids[-1] != ids[-1 - size]:
        return False
    tail = ids[-size * count :]
    return tail[size:] == tail[:-size]


# Source of the numbers: the REST reference, loop detection of the Gemma 4 family.
_ON = LoopRule(max_size=20, min_size=1, count=4)
_ON_WORDS = ("on", "1", "true", "default", "enabled")
_OFF_WORDS = ("", "off", "0", "false", "none", "disabled")


def parse_loop_rule(text: str) -> LoopRule:
    """Return the rule a setting stands for: "off", "on", or "min,max,count".

    Raises:
        ValueError: it is none of these.
    """
    word = text.strip().lower()
    if word in _OFF_WORDS:
        return LoopRule()
    if word in _ON_WORDS:
        return _ON
    numbers = [int(part) for part in word.replace(":", ",").split(",")]
    if len(numbers) != 3 or min(numbers) < 0:
        raise ValueError(f"{text!r} is not off, on or three numbers min,max,count")
    least, most, count = numbers
    if least > most:
        raise ValueError(f"{text!r}: patterns of {least} tokens at least and {most} at most")
    return LoopRule(most, least, count)


def default_rule(setting: str, model_type: str) -> LoopRule:
    """Return the rule of requests that bring none: the setting, else the family's, else off."""
    if setting:
        return parse_loop_rule(setting)
    return _ON if model_type.startswith("gemma4") else LoopRule()
