"""Reads text that arrives in pieces as if it were whole.

A reader is a generator over a `Source`. It pauses with `yield` only where the result depends on
text that has not arrived, so its result is a function of the whole text, wherever it was cut. No
character is scanned twice, except those of a delimiter that may have begun.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from functools import lru_cache
from typing import TypeAlias, TypeVar

T = TypeVar("T")
# A reader that returns a T.
Reading: TypeAlias = Generator[None, None, T]
# Receives text that has been read.
Give: TypeAlias = Callable[[str], object]

# White space of JSON.
_SPACE = re.compile(r"[ \t\r\n]*")


class Source:
    def __init__(self) -> None:
        self._text = ""
        self._offset = 0
        self._ended = False
        # Whether a limit, not the model, has ended the text.
        self._cut = False
        # What was read since `keep`; the part in `_text` begins at `_mark`.
        self._kept: list[str] = []
        self._mark: int | None = None

    def add(self, text: str) -> None:
        """Append the next piece of text."""
        if self._mark is not None:
            self._kept.append(self._text[self._mark : self._offset])
            self._mark = 0
        self._text = self._text[self._offset :] + text
        self._offset = 0

    def end(self, *, cut: bool = False) -> None:
        """Mark the end of the text.

        Args:
            cut: a limit has ended it, not the model: what it ends in may be incomplete.
        """
        self._ended = True
        self._cut = cut

    @property
    def at_end(self) -> bool:
        """Whether all of a text was read that has ended."""
        return self._ended and self._offset == len(self._text)

    @property
    def cut_off(self) -> bool:
        """Whether all was read of a text that a limit has ended."""
        return self._cut and self.at_end

    def known(self) -> str:
        """Return the next character if it has arrived, else ""."""
        return self._text[self._offset : self._offset + 1]

    def peek(self) -> Reading[str]:
        """Return the next character without reading it; "" at the end."""
        while self._offset == len(self._text):
            if self._ended:
                return ""
            yield
        return self._text[self._offset]

    def skip(self, count: int = 1) -> None:
        """Read characters that are known from `peek` or `look`."""
        self._offset += count

    def take(self, pattern: re.Pattern[str]) -> str:
        """Read what a pattern matches in the text that has arrived; never waits for more."""
        match = pattern.match(self._text, self._offset)
        if match is None:
            return ""
        self._offset = match.end()
        return match.group()

    def skip_space(self) -> Reading[str]:
        """Read white space; return the next character without reading it, or "" at the end."""
        while True:
            self.take(_SPACE)
            char = yield from self.peek()
            if not char or char not in " \t\r\n":
                return char

    def read_run(self, pattern: re.Pattern[str]) -> Reading[str]:
        """Read and return a run of characters that match a pattern of the form `[...]+`."""
        run: list[str] = []
        while True:
            part = self.take(pattern)
            if not part and (yield from self.peek()) == "":
                return "".join(run)
            if not part and not pattern.match(self._text, self._offset):
                return "".join(run)
            run.append(part)

    def look(self, options: Sequence[str]) -> Reading[str]:
        """Return whichever of some texts comes next, without reading it; "" if none does.

        Args:
            options: none is a prefix of another.
        """
        longest = max(map(len, options), default=0)
        while True:
            rest = self._text[self._offset : self._offset + longest]
            for option in options:
                if rest.startswith(option):
                    return option
            if self._ended or not any(option.startswith(rest) for option in options):
                return ""
            yield

    def read_closing(self, closings: Sequence[str]) -> Reading[str]:
        """Read whichever of some texts comes next; return it, or "" with nothing read.

        At the end of the text, which may be cut off, a prefix of one is enough.
        """
        found = yield from self.look(closings)
        rest = self._text[self._offset :]
        if not found and rest and self._ended:
            found = next((text for text in closings if text.startswith(rest)), "")
        self.skip(min(len(found), len(rest)))
        return found

    def find(
        self, delimiters: Sequence[str], give: Give, *, past: bool = True, least: int = 2
    ) -> Reading[str]:
        """Read up to the first delimiter and return it; "" at the end.

        Args:
            delimiters: none contains another, except in its tail.
            give: receives the text before the delimiter, each part as soon as it can't be the
                beginning of one.
            past: read the delimiter too.
            least: characters of a delimiter that are not given at the end of a text that was cut
                off. One alone is more likely a character of the text. In a value, where it is 1,
                two are not given at the end of any text.
        """
        while True:
            found, end = self._search(delimiters)
            if end > self._offset:
                give(self._text[self._offset : end])
            self._offset = end + (len(found) if past else 0)
            if not found and self._ended:
                self._read_beginning(least, give)
            if found or self._ended:
                return found
            yield

    def _read_beginning(self, least: int, give: Give) -> None:
        """Read what may have been the beginning of a delimiter when the text ended."""
        rest = self._text[self._offset :]
        mark = rest.strip()
        is_mark = len(mark) >= max(least, 2) and not mark[0].isalnum()
        if rest and not ((self._cut and least < 2) or (is_mark and (self._cut or least < 2))):
            give(rest)
        self._offset = len(self._text)

    def skip_beginning(self, options: Sequence[str]) -> Reading[None]:
        """Read the beginning of one of some texts, if the text was cut off in it."""
        found = yield from self.look(options)
        rest = self._text[self._offset :]
        if self._cut and not found and any(option.startswith(rest) for option in options):
            self._offset = len(self._text)

    def keep(self, before: str = "") -> None:
        """Record what is read from now on, for `release` or `rewind`.

        Args:
            before: text that was read already and belongs to it.
        """
        self._kept = [before]
        self._mark = self._offset

    def release(self) -> str:
        """Return what was read since `keep` and stop recording."""
        kept = "".join(self._kept) + self._text[self._mark : self._offset]
        self.forget()
        return kept

    def rewind(self) -> None:
        """Go back to where `keep` was called and stop recording."""
        unread = self._text[self._offset :]
        self._text, self._offset = self.release() + unread, 0

    def forget(self) -> None:
        """Stop recording and drop what was read since `keep`."""
        self._kept = []
        self._mark = None

    def _search(self, delimiters: Sequence[str]) -> tuple[str, int]:
        """Return the first delimiter and its offset, or "" and the offset up to which none is."""
        # One pass for all: separate searches would each scan to the end for a missing delimiter.
        match = _pattern(tuple(delimiters)).search(self._text, self._offset)
        if match:
            return match.group(), match.start()
        size = len(self._text)
        return "", size - partial_length(self._text[self._offset :], delimiters)


@lru_cache
def _pattern(delimiters: tuple[str, ...]) -> re.Pattern[str]:
    # Without delimiters nothing matches.
    return re.compile("|".join(map(re.escape, delimiters)) or "(?!)")


@lru_cache
def _beginnings(delimiters: tuple[str, ...]) -> tuple[re.Pattern[str], int]:
    """Return what matches the first character of a delimiter, and the longest one's length."""
    chars = "".join(re.escape(delimiter[0]) for delimiter in delimiters)
    return re.compile(f"[{chars}]" if chars else "(?!)"), max(map(len, delimiters), default=1)


def partial_length(text: str, delimiters: Sequence[str]) -> int:
    """Return the length of the longest tail that is a proper prefix of a delimiter."""
    first, longest = _beginnings(tuple(delimiters))
    tail = text[1 - longest :] if longest > 1 else ""
    match = first.search(tail)
    while match:
        rest = tail[match.start() :]
        if any(len(rest) < len(each) and each.startswith(rest) for each in delimiters):
            return len(rest)
        match = first.search(tail, match.start() + 1)
    return 0
