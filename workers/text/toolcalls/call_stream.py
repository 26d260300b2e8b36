"""An answer's calls as they are shown: declared functions only, each with an id.

Wraps the parser of a format. A call of another function than the declared ones, or than the one
the request names, leaves no trace, nor does one too many: its markup is dropped with it. White
space between two of {the answer's beginning, a call, the answer's end} is dropped if there was a
call at all; beside other text it is kept. Ids are a function of the request and the call's place
among those kept, so a replayed answer has the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from workers.text.toolcalls.format import Arguments, End, Format, Piece, Start, Text, Tools


@dataclass(frozen=True)
class CallStart:
    """A call begins."""

    id: str
    name: str


# At most one call is open: between a CallStart and its End there are only Arguments.
StreamPiece = Text | CallStart | Arguments | End


class CallStream:
    """Reads one answer.

    Args:
        form: of the calls.
        tools: the declared functions; None keeps every call.
        request_id: the ids derive from it.
        named: the only function that may be called.
        most: calls to keep; None for all.

    Attributes:
        call_count: how many calls have been kept.
    """

    def __init__(
        self,
        form: Format,
        tools: Tools | None,
        request_id: str,
        named: str | None = None,
        most: int | None = None,
    ) -> None:
        self._parser = form.parser(tools or {})
        self._tools = tools
        self._request_id = request_id
        self._named = named
        self._most = most
        self._keeps = False  # the open call
        self._has_called = False
        # White space after the beginning or a call; None once other text has followed.
        self._space: list[str] | None = []
        self.call_count = 0

    def feed(self, text: str) -> list[StreamPiece]:
        """Take the next piece of text and return what is certain by now."""
        return self._filter(self._parser.feed(text))

    def finish(self) -> list[StreamPiece]:
        """Return the rest: no more text comes. An open call ends."""
        pieces = self._filter(self._parser.finish())
        if self._space and not self._has_called:
            pieces.append(Text("".join(self._space)))
        return pieces

    def _filter(self, pieces: Iterable[Piece]) -> list[StreamPiece]:
        shown: list[StreamPiece] = []
        for piece in pieces:
            if isinstance(piece, Text):
                shown += self._show_text(piece)
            elif isinstance(piece, Start):
                shown += self._show_start(piece.name)
            elif self._keeps:
                shown.append(piece)
        return shown

    def _show_text(self, piece: Text) -> list[StreamPiece]:
        if self._space is None:
            return [piece]
        self._space.append(piece.text)
        if piece.text.isspace():
            return []
        text, self._space = "".join(self._space), None
        return [Text(text)]

    def _show_start(self, name: str) -> list[StreamPiece]:
        self._space = []
        self._has_called = True
        self._keeps = self._is_wanted(name)
        if not self._keeps:
            return []
        start = CallStart(call_id(self._request_id, self.call_count), name)
        self.call_count += 1
        return [start]

    def _is_wanted(self, name: str) -> bool:
        declared = self._tools is None or name in self._tools
        full = self._most is not None and self.call_count >= self._most
        return declared and not full and self._named in (None, name)


def call_id(request_id: str, index: int) -> str:
    """Return the id of a request's call, counted from 0."""
    digest = hashlib.sha256(f"{request_id}/{index}".encode()).hexdigest()
    return f"call_{digest[:24]}"
