"""Tells markers that letters only spell from those that are tokens.

A model that explains its own tags, or thinks about them, writes them in letters; what it means as a
marker is one token of its vocabulary. Owns the search for spelled markers in the decoded text, and
the guard that keeps the parsers from taking them for markers. Runs on the engine thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from workers.text.toolcalls.reader.json_text import GUARD


class SpellingGuard:
    """Guards the text of one sequence.

    Args:
        markers: texts that the vocabulary has as tokens; not empty.

    Attributes:
        used: whether a guard was put into the text so far.
    """

    def __init__(self, markers: Sequence[str]) -> None:
        self._markers = tuple(markers)
        self._last = frozenset(marker[-1] for marker in markers)
        self._longest = max(map(len, markers))
        # The texts before, none empty: as many as a marker may have begun in.
        self._before: deque[str] = deque(maxlen=self._longest - 1)
        # Characters noted and guarded so far, and the offsets of guards between them.
        self._noted = 0
        self._guarded = 0
        self._offsets: deque[int] = deque()
        self.used = False

    def note_marker(self, text: str) -> None:
        """Note the text of a token that is a marker."""
        self._before.clear()
        self._noted += len(text)

    def note(self, text: str) -> None:
        """Note the text of any other token."""
        if not self._last.isdisjoint(text):
            self._search(text)
        self._noted += len(text)
        if text:
            self._before.append(text)

    def _search(self, text: str) -> None:
        before = "".join(self._before)
        whole = before + text
        start = self._noted - len(before)
        found = set()
        for marker in self._markers:
            # Only where it ends in the new text.
            at = whole.find(marker, max(0, len(before) - len(marker) + 1))
            while at >= 0:
                found.add(start + at + len(marker) - 1)
                at = whole.find(marker, at + 1)
        self._offsets.extend(sorted(found))

    def guard(self, text: str) -> str:
        """Return the next part of the noted text with guards in it."""
        start = self._guarded
        self._guarded += len(text)
        if not self._offsets or self._offsets[0] >= self._guarded:
            return text
        self.used = True
        parts: list[str] = []
        done = start
        while self._offsets and self._offsets[0] < self._guarded:
            offset = self._offsets.popleft()
            parts.append(text[done - start : offset - start] + GUARD)
            done = offset
        return "".join(parts) + text[done - start :]


def remove_guards(text: str) -> str:
    """Return a text as the model wrote it."""
    return text.replace(GUARD, "")
