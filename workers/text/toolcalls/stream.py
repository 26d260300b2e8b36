"""The base of parsers that give a call out while it is written.

Joins a `Source` and a generator that reads it. What it gives is gathered here, so that a feed
returns few pieces: neighbouring ones of a kind are one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from itertools import groupby

from workers.text.toolcalls.format import Arguments, End, ParsedCall, Piece, Start, Text
from workers.text.toolcalls.reader.source import Reading, Source


class Pieces:
    """What a parser has found since it was last asked."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []

    def text(self, text: str) -> None:
        self._pieces.append(Text(text))

    def start(self, name: str) -> None:
        self._pieces.append(Start(name))

    def arguments(self, text: str) -> None:
        self._pieces.append(Arguments(text))

    def end(self) -> None:
        self._pieces.append(End())

    def call(self, call: ParsedCall) -> None:
        self._pieces += call.pieces()

    def take(self) -> list[Piece]:
        """Return them and begin anew."""
        pieces, self._pieces = self._pieces, []
        return join(pieces)


class StreamParser(ABC):
    """A `Parser` whose work is written as one generator."""

    def __init__(self) -> None:
        self._source = Source()
        self._out = Pieces()
        self._reading = self._read()

    def feed(self, text: str) -> list[Piece]:
        """Part of `Parser`."""
        self._source.add(text)
        next(self._reading, None)
        return self._out.take()

    def finish(self) -> list[Piece]:
        """Part of `Parser`."""
        self._source.end()
        next(self._reading, None)
        return self._out.take()

    @abstractmethod
    def _read(self) -> Reading[None]:
        """Read the answer up to its end."""


def join(pieces: Iterable[Piece]) -> list[Piece]:
    """Return pieces with neighbouring texts, and arguments, joined and empty ones left out."""
    joined: list[Piece] = []
    for kind, group in groupby(pieces, type):
        if kind in (Start, End):
            joined += group
        elif text := "".join(piece.text for piece in group if isinstance(piece, Text | Arguments)):
            joined.append(Text(text) if kind is Text else Arguments(text))
    return joined
