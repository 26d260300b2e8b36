"""Names and filters the calls of one answer, and gives each an id.

Wraps the parser of a format, and accepts plain JSON as the whole answer in its place. A name that
means a declared function is replaced by it; calls of others are kept or dropped, by a setting.
Calls of another function than the request names and calls beyond the limit are dropped together
with their markup. If the answer has a call, white space is dropped where nothing else stands
between the answer's start, its calls and its end. Ids are a function of the request id and the
call's index, so a replay repeats them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from workers.text.toolcalls.bare_answer import BareAnswer
from workers.text.toolcalls.declared import DeclaredTools
from workers.text.toolcalls.format import (
    CallArguments,
    CallEnd,
    CallName,
    ContentText,
    Format,
    Piece,
    Tools,
)
from workers.text.toolcalls.schema_answer import SchemaAnswer


@dataclass(frozen=True)
class CallStart:
    """A call that is kept begins."""

    id: str
    name: str


@dataclass(frozen=True)
class CallPolicy:
    """Which calls of an answer are kept.

    Attributes:
        named: the only function that may be called.
        most: the number of calls to keep; None for all.
        keeps_undeclared: whether calls of functions that are not declared are kept.
        forced: a grammar lets the answer hold calls only: what it holds besides is markup.
        has_schema: the answer is calls, or a text that follows a schema.
    """

    named: str | None = None
    most: int | None = None
    keeps_undeclared: bool = True
    forced: bool = False
    has_schema: bool = False


# At most one call is open: only CallArguments stand between a CallStart and its CallEnd.
StreamPiece = ContentText | CallStart | CallArguments | CallEnd


class CallStream:
    """Parses one answer.

    Args:
        tools: the declared functions; None keeps every call.
        request_id: the source of the calls' ids.
        policy: which of the calls are kept.

    Attributes:
        call_count: the number of calls kept so far.
    """

    def __init__(
        self,
        call_format: Format,
        tools: Tools | None,
        request_id: str,
        policy: CallPolicy = CallPolicy(),
    ) -> None:
        self._tools = None if tools is None else DeclaredTools(tools)
        self._parser = call_format.parser(self._tools or {})
        if policy.has_schema:
            self._parser = SchemaAnswer(self._parser, self._tools or {})
        # While the answer may be calls as plain JSON.
        may_be_bare = bool(tools) and not call_format.is_bare and not policy.has_schema
        self._bare = BareAnswer(self._is_known) if may_be_bare else None
        self._request_id = request_id
        self._policy = policy
        self._keeps = False  # the open call
        self._has_called = False
        # White space since the start or the last call; None once other text has followed.
        self._space: list[str] | None = []
        self.call_count = 0

    def feed(self, text: str) -> list[StreamPiece]:
        """Parse the next part of the text and return the pieces that are certain."""
        if self._bare is not None:
            if self._bare.feed(text):
                return []
            text, self._bare = self._bare.text, None
        return self._filter(self._parser.feed(text))

    def finish(self, *, cut: bool = False) -> list[StreamPiece]:
        """End the text: return the remaining pieces. An open call ends.

        Args:
            cut: a limit has ended the text.
        """
        found: list[Piece] = []
        if self._bare is not None:
            found = self._bare.finish(cut=cut) or self._parser.feed(self._bare.text)
        pieces = self._filter([*found, *self._parser.finish(cut=cut)])
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
        if self._policy.forced:
            return []
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
        if self._tools:
            name = self._tools.find(name) or name
        self._keeps = self._is_wanted(name)
        if not self._keeps:
            return []
        start = CallStart(call_id(self._request_id, self.call_count), name)
        self.call_count += 1
        return [start]

    def _is_known(self, name: str) -> bool:
        return self._tools is not None and name in self._tools

    def _is_wanted(self, name: str) -> bool:
        declared = self._tools is None or self._policy.keeps_undeclared or name in self._tools
        most = self._policy.most
        full = most is not None and self.call_count >= most
        return declared and not full and self._policy.named in (None, name)


def call_id(request_id: str, index: int) -> str:
    """Return the id of a request's call; indices start at 0."""
    digest = hashlib.sha256(f"{request_id}/{index}".encode()).hexdigest()
    return f"call_{digest[:24]}"
