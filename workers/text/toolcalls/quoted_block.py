"""The base class of formats that parse a whole body between two delimiters.

Delimiters inside the body's strings are ignored. Everything outside the delimiters is content; a
body that can't be parsed is content too, with its delimiters. At the end of the text the closing
delimiter may be missing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from workers.text.toolcalls.format import ParsedCall
from workers.text.toolcalls.reader.source import Reading
from workers.text.toolcalls.stream import StreamParser

_ESCAPE = "\\"


class QuotedBlockParser(StreamParser):
    """Parses answers that hold such calls.

    Args:
        opening, closing: the delimiters.
        marks: the texts that begin and end strings.
        escapes: whether a backslash in a string escapes the next character.
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
    def _parse_calls(self, body: str) -> Sequence[ParsedCall] | None:
        """Return the calls of a body; None if it holds none."""

    def _read(self) -> Reading[None]:
        while (yield from self._source.find((self._opening,), self._out.text)):
            body: list[str] = []
            if (yield from self._read_body(body)):
                self._close("".join(body), self._closing)
            else:
                self._end("".join(body))

    def _read_body(self, body: list[str]) -> Reading[bool]:
        """Read up to and past the closing delimiter; return whether it came."""
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
        """Parse a block that is still open at the end of the text.

        An unmatched mark hides the rest of the text: if that contains the closing delimiter, the
        body is parsed again with strings ignored.
        """
        offset = 0
        while (end := text.find(self._closing, offset)) >= 0:
            self._close(text[offset:end], self._closing)
            offset = end + len(self._closing)
            start = text.find(self._opening, offset)
            self._out.text(text[offset:start] if start >= 0 else text[offset:])
            if start < 0:
                return
            offset = start + len(self._opening)
        self._close(text[offset:], "")

    def _close(self, body: str, closing: str) -> None:
        calls = self._parse_calls(body)
        if not calls:
            self._out.text(self._opening + body + closing)
            return
        for call in calls:
            self._out.call(call)
