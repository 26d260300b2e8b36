"""Text that arrives in pieces, read as if it were whole.

A reader is a generator that asks a `Source` for the next characters and pauses, by `yield`, only
where the answer depends on text that has not come. So what it does is a function of the whole
text, wherever that is cut, and no character is looked at twice but the few of a delimiter that
has begun.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from functools import lru_cache
from typing import TypeAlias, TypeVar

T = TypeVar("T")
# A reader that returns a T.
Reading: TypeAlias = Generator[None, None, T]
# Takes text that has been read.
Give: TypeAlias = Callable[[str], object]

# What JSON calls white space.
_SPACE = re.compile(r"[ \t\r\n]*")


class Source:
    """The text to read."""

    def __init__(self) -> None:
        self._text = ""
        self._place = 0
        self._ended = False
        # What was read since `keep`; the part in `_text` begins at `_mark`.
        self._kept: list[str] = []
        self._mark: int | None = None

    def add(self, text: str) -> None:
        """Take the next piece."""
        if self._mark is not None:
            self._kept.append(self._text[self._mark : self._place])
            self._mark = 0
        self._text = self._text[self._place :] + text
        self._place = 0

    def end(self) -> None:
        """Note that no more text comes."""
        self._ended = True

    def peek(self) -> Reading[str]:
        """Return the next character without reading it; "" at the end."""
        while self._place == len(self._text):
            if self._ended:
                return ""
            yield
        return self._text[self._place]

    def skip(self, count: int = 1) -> None:
        """Read characters that have been looked at."""
        self._place += count

    def take(self, pattern: re.Pattern[str]) -> str:
        """Read what a pattern matches of the text at hand; more may follow, it never waits."""
        match = pattern.match(self._text, self._place)
        if match is None:
            return ""
        self._place = match.end()
        return match.group()

    def skip_space(self) -> Reading[str]:
        """Read white space; return the character after it, not read, or "" at the end."""
        while True:
            self.take(_SPACE)
            char = yield from self.peek()
            if not char or char not in " \t\r\n":
                return char

    def read_run(self, pattern: re.Pattern[str]) -> Reading[str]:
        """Read while single characters match a pattern of the form `[...]+`; return them."""
        run: list[str] = []
        while True:
            part = self.take(pattern)
            if not part and (yield from self.peek()) == "":
                return "".join(run)
            if not part and not pattern.match(self._text, self._place):
                return "".join(run)
            run.append(part)

    def look(self, options: Sequence[str]) -> Reading[str]:
        """Return which of some texts comes next, without reading it; "" if none does.

        Args:
            options: none of them the beginning of another.
        """
        longest = max(map(len, options))
        while True:
            rest = self._text[self._place : self._place + longest]
            for option in options:
                if rest.startswith(option):
                    return option
            if self._ended or not any(option.startswith(rest) for option in options):
                return ""
            yield

    def read_closing(self, closings: Sequence[str]) -> Reading[str]:
        """Read which of some texts comes next; return it, or "" with nothing read.

        At the end of the text, which may have been cut, the beginning of one will do.
        """
        found = yield from self.look(closings)
        rest = self._text[self._place :]
        if not found and rest and self._ended:
            found = next((text for text in closings if text.startswith(rest)), "")
        self.skip(min(len(found), len(rest)))
        return found

    def find(self, delimiters: Sequence[str], give: Give) -> Reading[str]:
        """Give the text before the first delimiter, read that and return it; "" at the end.

        Args:
            delimiters: none of them inside another, but for its tail.
            give: gets each part of the text as soon as it can't be a delimiter's beginning.
        """
        while True:
            found, end = self._search(delimiters)
            if end > self._place:
                give(self._text[self._place : end])
            self._place = end + len(found)
            if found or self._ended:
                return found
            yield

    def keep(self, before: str = "") -> None:
        """Remember what is read from now on, in case it has to be given back.

        Args:
            before: text that was read already and belongs to it.
        """
        self._kept = [before]
        self._mark = self._place

    def release(self) -> str:
        """Return what was read since `keep` and forget it."""
        kept = "".join(self._kept) + self._text[self._mark : self._place]
        self.forget()
        return kept

    def rewind(self) -> None:
        """Go back to where `keep` was called and forget it."""
        unread = self._text[self._place :]
        self._text, self._place = self.release() + unread, 0

    def forget(self) -> None:
        """Forget what was read since `keep`."""
        self._kept = []
        self._mark = None

    def _search(self, delimiters: Sequence[str]) -> tuple[str, int]:
        """Return the first delimiter and where it begins, or "" and how far there is none."""
        # One pass for all: a delimiter that never comes would be sought to the end each time.
        match = _pattern(tuple(delimiters)).search(self._text, self._place)
        if match:
            return match.group(), match.start()
        size = len(self._text)
        if self._ended:
            return "", size
        return "", size - partial_length(self._text[self._place :], delimiters)


@lru_cache
def _pattern(delimiters: tuple[str, ...]) -> re.Pattern[str]:
    # Without delimiters nothing matches.
    return re.compile("|".join(map(re.escape, delimiters)) or "(?!)")


def partial_length(text: str, delimiters: Sequence[str]) -> int:
    """Return the length of the longest tail that may be the beginning of a delimiter."""
    longest = 0
    for delimiter in delimiters:
        start = max(0, len(text) - len(delimiter) + 1)
        while (start := text.find(delimiter[0], start)) >= 0:
            if delimiter.startswith(text[start:]):
                longest = max(longest, len(text) - start)
                break
            start += 1
    return longest
