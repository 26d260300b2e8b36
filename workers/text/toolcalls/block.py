"""Calls that stand between two delimiters and are read once they are complete.

The base of every format that does not stream: it finds the blocks, holds back what may be the
beginning of a delimiter, and gives the block back as content when it is no call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workers.text.toolcalls.format import Call, Piece, Text

# Returns the calls of a block's body, or None when it holds none.
Read = Callable[[str], Sequence[Call] | None]


class BlockParser:
    """Reads answers in which calls stand between `opening` and `closing`.

    Args:
        opening: text that begins a block.
        closing: text that ends it.
        read: of the body between them.
    """

    def __init__(self, opening: str, closing: str, read: Read) -> None:
        self._opening = opening
        self._closing = closing
        self._read = read
        self._text = ""
        self._inside = False

    def feed(self, text: str) -> list[Piece]:
        """Part of `Parser`."""
        self._text += text
        pieces: list[Piece] = []
        while self._advance(pieces):
            pass
        return join(pieces)

    def finish(self) -> list[Piece]:
        """Part of `Parser`. A block without its end is read all the same."""
        text, self._text = self._text, ""
        if not self._inside:
            return [Text(text)] if text else []
        self._inside = False
        return self._close(text, "")

    def _advance(self, pieces: list[Piece]) -> bool:
        """Take one step through the text at hand; return whether another may follow."""
        wanted = self._closing if self._inside else self._opening
        place = self._text.find(wanted)
        if place < 0:
            if not self._inside:
                keep = len(self._text) - partial_length(self._text, (wanted,))
                pieces.append(Text(self._text[:keep]))
                self._text = self._text[keep:]
            return False
        before, self._text = self._text[:place], self._text[place + len(wanted) :]
        if self._inside:
            pieces += self._close(before, self._closing)
        else:
            pieces.append(Text(before))
        self._inside = not self._inside
        return True

    def _close(self, body: str, closing: str) -> list[Piece]:
        calls = self._read(body)
        if calls is None:
            return [Text(self._opening + body + closing)]
        return [piece for call in calls for piece in call.pieces()]


def partial_length(text: str, delimiters: Sequence[str]) -> int:
    """Return the length of the longest tail that may be the beginning of a delimiter."""
    longest = max(map(len, delimiters)) - 1
    for size in range(min(longest, len(text)), 0, -1):
        tail = text[-size:]
        if any(len(d) > size and d.startswith(tail) for d in delimiters):
            return size
    return 0


def join(pieces: Sequence[Piece]) -> list[Piece]:
    """Return pieces with neighbouring texts joined and empty ones left out."""
    joined: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, Text):
            if not piece.text:
                continue
            if joined and isinstance(joined[-1], Text):
                joined[-1] = Text(joined[-1].text + piece.text)
                continue
        joined.append(piece)
    return joined
