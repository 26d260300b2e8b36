"""Stop strings in a text that arrives in pieces.

Owns which text may be shown and which is held back. The result depends only on the whole text, not
on where it was cut: the match that begins first wins, and of those the one that ends first. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence


class StopMatcher:
    """Holds back text that may be part of a stop string.

    Args:
        strings: non-empty stop strings.

    Attributes:
        matched: the string that ended the text, once one has.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        self._strings = tuple(strings)
        self._held = ""
        self.matched: str | None = None

    def feed(self, text: str) -> str:
        """Take a piece and return the text that is safe to show; none after a match."""
        if self.matched is not None:
            return ""
        if not self._strings:
            return text
        buffer = self._held + text
        waiting = _first_partial(buffer, self._strings)
        found = _first_match(buffer, self._strings)
        if found is not None and found[0] <= waiting:
            return self._end(buffer, found)
        self._held = buffer[waiting:]
        return buffer[:waiting]

    def flush(self) -> str:
        """End the text: return what is still held."""
        buffer, self._held = self._held, ""
        if self.matched is None:
            found = _first_match(buffer, self._strings)
            if found is not None:
                return self._end(buffer, found)
        return buffer

    def _end(self, buffer: str, found: tuple[int, int, str]) -> str:
        self.matched = found[2]
        self._held = ""
        return buffer[: found[0]]


def _first_match(text: str, strings: Sequence[str]) -> tuple[int, int, str] | None:
    """Return (start, end, string) of the match that begins first, then ends first."""
    found = [(start, start + len(s), s) for s in strings if (start := text.find(s)) >= 0]
    return min(found, default=None)


def _first_partial(text: str, strings: Sequence[str]) -> int:
    """Return where the longest tail begins that is a proper prefix of a stop string."""
    longest = max(len(s) for s in strings) - 1
    for start in range(max(0, len(text) - longest), len(text)):
        tail = text[start:]
        if any(len(s) > len(tail) and s.startswith(tail) for s in strings):
            return start
    return len(text)
