"""The base class of the parsers: a `Source`, a generator that reads it, and a piece buffer.

The buffer merges neighbouring pieces of one kind, so that each feed returns few of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from itertools import groupby

from workers.text.toolcalls.format import (
    CallArguments,
    CallEnd,
    CallName,
    ContentText,
    ParsedCall,
    Piece,
)
from workers.text.toolcalls.reader.source import Reading, Source


class PieceBuffer:
    """The pieces found since the last `take`."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []

    def text(self, text: str) -> None:
        self._pieces.append(ContentText(text))

    def start(self, name: str) -> None:
        self._pieces.append(CallName(name))

    def arguments(self, text: str) -> None:
        self._pieces.append(CallArguments(text))

    def end(self) -> None:
        self._pieces.append(CallEnd())

    def call(self, call: ParsedCall) -> None:
        self._pieces += call.pieces()

    def take(self) -> list[Piece]:
        """Return the pieces, merged, and empty the buffer."""
        pieces, self._pieces = self._pieces, []
        return join(pieces)


class StreamParser(ABC):
    """A `Parser` written as one generator over a `Source`."""

    def __init__(self) -> None:
        self._source = Source()
        self._out = PieceBuffer()
        self._reading = self._read()

    def feed(self, text: str) -> list[Piece]:
        self._source.add(text)
        next(self._reading, None)
        return self._out.take()

    def finish(self) -> list[Piece]:
        self._source.end()
        next(self._reading, None)
        return self._out.take()

    @abstractmethod
    def _read(self) -> Reading[None]:
        """Read the answer up to its end."""


def join(pieces: Iterable[Piece]) -> list[Piece]:
    """Return the pieces with neighbouring texts or arguments joined and empty ones dropped."""
    joined: list[Piece] = []
    for kind, group in groupby(pieces, type):
        if kind in (CallName, CallEnd):
            joined += group
            continue
        text = "".join(p.text for p in group if isinstance(p, ContentText | CallArguments))
        if text:
            joined.append(ContentText(text) if kind is ContentText else CallArguments(text))
    return joined
