"""The base class of the parsers: a `Source`, a generator that reads it, and a piece buffer.

The buffer merges neighbouring texts of one kind, so that each feed returns few pieces.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

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
    """The pieces found since the last `take`.

    Args:
        streams: whether the pieces of an open call are taken before its end.
    """

    def __init__(self, *, streams: bool) -> None:
        self._streams = streams
        self._pieces: list[Piece] = []
        # Texts of one kind that are not among the pieces yet.
        self._kind: type[ContentText | CallArguments] = ContentText
        self._texts: list[str] = []
        # Where the pieces of the open call begin, if they are held back.
        self._open: int | None = None

    def text(self, text: str) -> None:
        self._add_text(ContentText, text)

    def start(self, name: str) -> None:
        self._merge()
        self._open = None if self._streams else len(self._pieces)
        self._pieces.append(CallName(name))

    def arguments(self, text: str) -> None:
        self._add_text(CallArguments, text)

    def end(self) -> None:
        self._merge()
        self._open = None
        self._pieces.append(CallEnd())

    def add(self, piece: Piece) -> None:
        self._merge()
        self._pieces.append(piece)

    def call(self, call: ParsedCall) -> None:
        self._merge()
        self._pieces += call.pieces()

    def take(self) -> list[Piece]:
        """Return the pieces that are not held back and remove them."""
        if self._open == 0:
            return []
        self._merge()
        size = self._open
        self._open = None if size is None else 0
        pieces, self._pieces = self._pieces[:size], [] if size is None else self._pieces[size:]
        return pieces

    def _add_text(self, kind: type[ContentText | CallArguments], text: str) -> None:
        if kind is not self._kind:
            self._merge()
            self._kind = kind
        if text:
            self._texts.append(text)

    def _merge(self) -> None:
        if self._texts:
            self._pieces.append(self._kind("".join(self._texts)))
            self._texts = []


class StreamParser(ABC):
    """A `Parser` written as one generator over a `Source`.

    Args:
        markers: texts that are never content, wherever they stand. None is the beginning of
            another.
        streams: whether calls are given out while they are written, or each at its end.
    """

    def __init__(self, markers: Sequence[str], *, streams: bool = False) -> None:
        self._markers = tuple(markers)
        self._source = Source()
        self._out = PieceBuffer(streams=streams)
        self._reading = self._read()

    def feed(self, text: str) -> list[Piece]:
        self._source.add(text)
        next(self._reading, None)
        return self._out.take()

    def finish(self, *, cut: bool) -> list[Piece]:
        self._source.end(cut=cut)
        next(self._reading, None)
        return self._out.take()

    @abstractmethod
    def _read(self) -> Reading[None]:
        """Read the answer up to its end."""


def strip_markers(text: str, markers: Sequence[str]) -> str:
    """Return a text without some markers."""
    for marker in markers:
        text = text.replace(marker, "")
    return text
