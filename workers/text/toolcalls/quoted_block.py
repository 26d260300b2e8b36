"""The base class of formats that parse a whole body between two delimiters.

Delimiters inside the body's strings are ignored. Everything outside the delimiters is content, and
so is a body without a call. Of a call that can't be parsed, the text after the name becomes the
member `input` of its arguments. At the end of the text the closing delimiter may be missing.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from workers.text.toolcalls.arguments import cut_object, wrap_text
from workers.text.toolcalls.format import ParsedCall
from workers.text.toolcalls.json_block import JsonBlockParser
from workers.text.toolcalls.reader.json_text import render_object
from workers.text.toolcalls.reader.source import Reading
from workers.text.toolcalls.stream import StreamParser, strip_markers

# Bodies without a call.
_EMPTY = ("", "[]")
_ESCAPE = "\\"


@dataclass
class ParsedBody:
    """What was parsed of a body.

    Attributes:
        calls: the complete calls.
        name: the function of a last call that is not well-formed; "" if there is none.
        members: its arguments so far, as JSON text.
        members_end: the offset behind them.
        ends_in_bare: the last of them has no delimiter, so that it may go on.
        at_end: whether it is well-formed up to the end of the body.
        rest: the text after the name, or after the calls.
    """

    calls: list[ParsedCall] = field(default_factory=list)
    name: str = ""
    members: list[tuple[str, str]] = field(default_factory=list)
    members_end: int = 0
    ends_in_bare: bool = False
    at_end: bool = False
    rest: str = ""

    def begin(self, name: str, offset: int) -> None:
        """Note that a call begins, with its arguments at an offset."""
        self.name, self.members, self.members_end = name, [], offset

    @property
    def arguments(self) -> str:
        return render_object(dict(self.members))


class QuotedBlockParser(StreamParser):
    """Parses answers that hold such calls.

    Args:
        opening, closing: the delimiters.
        marks: the texts that begin and end strings.
        start: matches the beginning of a call, its name as group 1; without a group 1 the calls
            are written as JSON.
        escapes: whether a backslash in a string escapes the next character.
    """

    def __init__(
        self,
        opening: str,
        closing: str,
        marks: Sequence[str],
        start: re.Pattern[str],
        *,
        escapes: bool = False,
    ) -> None:
        tokens = [mark for mark in marks if len(mark) > 1]
        super().__init__((opening, closing, *tokens))
        self._opening = opening
        self._closing = closing
        self._marks = tuple(marks)
        self._start = start
        self._escapes = escapes

    @abstractmethod
    def _parse_calls(self, body: str) -> ParsedBody:
        """Parse a body that begins with a call, as far as it is well-formed."""

    def _read(self) -> Reading[None]:
        while found := (yield from self._source.find(self._markers, self._out.text)):
            if found != self._opening:
                continue
            body: list[str] = []
            if (yield from self._read_body(body)):
                self._close("".join(body), cut=False)
            else:
                self._end("".join(body), cut=self._source.cut_off)

    def _read_body(self, body: list[str]) -> Reading[bool]:
        """Read up to and past the closing delimiter; return whether it came."""
        while True:
            ends = (self._closing, *self._marks)
            found = yield from self._source.find(ends, body.append, least=1)
            if not found or found == self._closing:
                return found != ""
            body.append(found)
            yield from self._read_string(found, body)

    def _read_string(self, mark: str, body: list[str]) -> Reading[None]:
        stops = (mark, _ESCAPE) if self._escapes else (mark,)
        while True:
            found = yield from self._source.find(stops, body.append, least=1)
            body.append(found)
            if not found or found == mark:
                return
            body.append((yield from self._source.peek()))
            self._source.skip(len(body[-1]))

    def _end(self, text: str, *, cut: bool) -> None:
        """Parse a block that is still open at the end of the text.

        An unmatched mark hides the rest of the text: if that contains the closing delimiter, the
        body is parsed again with strings ignored.
        """
        offset = 0
        while (end := text.find(self._closing, offset)) >= 0:
            self._close(text[offset:end], cut=False)
            offset = end + len(self._closing)
            start = text.find(self._opening, offset)
            self._give(text[offset:start] if start >= 0 else text[offset:])
            if start < 0:
                return
            offset = start + len(self._opening)
        self._close(text[offset:], cut=cut)

    def _close(self, body: str, *, cut: bool) -> None:
        """Give the calls of a body, and text before them as content.

        Args:
            cut: the body was cut off: of its last call the complete arguments are given.
        """
        start = self._start.search(body)
        if start is None:
            if body.strip() not in _EMPTY and not cut:
                self._give(body)
            return
        if body[: start.start()].strip():
            self._give(body[: start.start()])
        body = body[start.start() :]
        if start[1] is None:
            self._close_json(body, cut=cut)
        else:
            self._close_calls(body, cut=cut)

    def _close_json(self, body: str, *, cut: bool) -> None:
        parser = JsonBlockParser(self._opening, self._closing)
        for piece in (*parser.feed(self._opening + body), *parser.finish(cut=cut)):
            self._out.add(piece)

    def _close_calls(self, body: str, *, cut: bool) -> None:
        parsed = self._parse_calls(body)
        for call in parsed.calls:
            self._out.call(call)
        if parsed.name and cut:
            certain = parsed.members
            if parsed.ends_in_bare and not body[parsed.members_end :].strip():
                certain = certain[:-1]
            self._out.call(ParsedCall(parsed.name, cut_object(render_object(dict(certain)))))
        elif parsed.name and parsed.at_end and not body[parsed.members_end :].strip(" ,"):
            self._out.call(ParsedCall(parsed.name, parsed.arguments))
        elif parsed.name:
            rest = strip_markers(parsed.rest, self._markers)
            self._out.call(ParsedCall(parsed.name, wrap_text(rest)))
        elif parsed.rest.strip() and not cut:
            self._give(parsed.rest)

    def _give(self, text: str) -> None:
        self._out.text(strip_markers(text, self._markers))
