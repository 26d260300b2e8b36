"""Filters the calls of one answer: declared functions only, each with an id.

Wraps the parser of a format. Calls of functions that are not declared, or not the one the request
names, and calls beyond the limit are dropped together with their markup. If the answer has a
call, white space is dropped where nothing else stands between the answer's start, its calls and
its end. Ids are a function of the request id and the call's index, so a replay repeats them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from workers.text.toolcalls.format import (
    CallArguments,
    CallEnd,
    CallName,
    ContentText,
    Format,
    Piece,
    Tools,
)


@dataclass(frozen=True)
class CallStart:
    """A call that is kept begins."""

    id: str
    name: str


# At most one call is open: only CallArguments stand between a CallStart and its CallEnd.
StreamPiece = ContentText | CallStart | CallArguments | CallEnd


class CallStream:
    """Parses one answer.

    Args:
        tools: the declared functions; None keeps every call.
        request_id: the source of the calls' ids.
        named: the only function that may be called.
        most: the number of calls to keep; None for all.

    Attributes:
        call_count: the number of calls kept so far.
    """

    def __init__(
        self,
        call_format: Format,
        tools: Tools | None,
        request_id: str,
        named: str | None = None,
        most: int | None = None,
    ) -> None:
        self._parser = call_format.parser(tools or {})
        self._tools = tools
        self._request_id = request_id
        self._named = named
        self._most = most
        self._keeps = False  # the open call
        self._has_called = False
        # White space since the start or the last call; None once other text has followed.
        self._space: list[str] | None = []
        self.call_count = 0

    def feed(self, text: str) -> list[StreamPiece]:
        """Parse the next part of the text and return the pieces that are certain."""
        return self._filter(self._parser.feed(text))

    def finish(self) -> list[StreamPiece]:
        """End the text: return the remaining pieces. An open call ends."""
        pieces = self._filter(self._parser.finish())
        if self._space and not self._has_called:
            pieces.append(ContentText("".join(self._space)))
        return pieces

    def _filter(self, pieces: Iterable[Piece]) -> list[StreamPiece]:
        shown: list[StreamPiece] = []
        for piece in pieces:
            if isinstance(piece, ContentText):
                shown += self._show_text(piece)
            elif isinstance(piece, CallName):
                shown += self._show_start(piece.name)
            elif self._keeps:
                shown.append(piece)
        return shown

    def _show_text(self, piece: ContentText) -> list[StreamPiece]:
        if self._space is None:
            return [piece]
        self._space.append(piece.text)
        if piece.text.isspace():
            return []
        text, self._space = "".join(self._space), None
        return [ContentText(text)]

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
    """Return the id of a request's call; indices start at 0."""
    digest = hashlib.sha256(f"{request_id}/{index}".encode()).hexdigest()
    return f"call_{digest[:24]}"
