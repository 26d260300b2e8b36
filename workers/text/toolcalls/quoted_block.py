"""Calls between two delimiters, with strings whose marks hide delimiters inside them.

The base of formats whose body has a notation of its own, which is read once it is whole. What
stands outside the delimiters is content. A body that can't be read is content with them; at the
end of the text the closing one may be missing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from workers.text.toolcalls.format import ParsedCall
from workers.text.toolcalls.reader.source import Reading
from workers.text.toolcalls.stream import StreamParser

_ESCAPE = "\\"


class QuotedBlockParser(StreamParser):
    """Reads answers that hold such calls.

    Args:
        opening, closing: the delimiters.
        marks: the texts that begin strings, and end them.
        escapes: whether a backslash in a string takes the next character's meaning.
    """

    def __init__(
        self, opening: str, closing: str, marks: Sequence[str], *, escapes: bool = False
    ) -> None:
        super().__init__()
        self._opening = opening
        self._closing = closing
        self._marks = tuple(marks)
        self._escapes = escapes

    @abstractmethod
    def _calls_of(self, body: str) -> Sequence[ParsedCall] | None:
        """Return the calls of a body; None where it holds none."""

    def _read(self) -> Reading[None]:
        while (yield from self._source.find((self._opening,), self._out.text)):
            body: list[str] = []
            if (yield from self._read_body(body)):
                self._close("".join(body), self._closing)
            else:
                self._end("".join(body))

    def _read_body(self, body: list[str]) -> Reading[bool]:
        """Read up to the closing delimiter, and that; return whether it came."""
        while True:
            found = yield from self._source.find((self._closing, *self._marks), body.append)
            if not found or found == self._closing:
                return found != ""
            body.append(found)
            yield from self._read_string(found, body)

    def _read_string(self, mark: str, body: list[str]) -> Reading[None]:
        stops = (mark, _ESCAPE) if self._escapes else (mark,)
        while True:
            found = yield from self._source.find(stops, body.append)
            body.append(found)
            if not found or found == mark:
                return
            body.append((yield from self._source.peek()))
            self._source.skip(len(body[-1]))

    def _end(self, text: str) -> None:
        """Read a block at the end of the text that did not close.

        A mark without its counterpart hides the rest of the text: where the closing delimiter is
        in it, the strings are taken to be none.
        """
        place = 0
        while (end := text.find(self._closing, place)) >= 0:
            self._close(text[place:end], self._closing)
            place = end + len(self._closing)
            start = text.find(self._opening, place)
            self._out.text(text[place:start] if start >= 0 else text[place:])
            if start < 0:
                return
            place = start + len(self._opening)
        self._close(text[place:], "")

    def _close(self, body: str, closing: str) -> None:
        calls = self._calls_of(body)
        if not calls:
            self._out.text(self._opening + body + closing)
            return
        for call in calls:
            self._out.call(call)
