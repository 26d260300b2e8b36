"""Recognises an answer that as a whole is calls written as plain JSON, whatever the format is.

Models forget the tags of their family. The text is held back while it can still be
`{"name": <declared function>, "arguments": {…}}`, or a list of such objects; if it is not, it is
parsed by the format. Pure.
"""

from __future__ import annotations

from collections.abc import Callable

from workers.text.toolcalls.format import CallName, ContentText, Piece
from workers.text.toolcalls.json_block import JsonBlockParser


class BareAnswer:
    """Holds back the text of one answer.

    Args:
        is_known: whether a name is that of a declared function.
    """

    def __init__(self, is_known: Callable[[str], bool]) -> None:
        self._parser = JsonBlockParser("", "", bare=True)
        self._is_known = is_known
        self._held: list[str] = []
        self._pieces: list[Piece] = []

    @property
    def text(self) -> str:
        """What was held back."""
        return "".join(self._held)

    def feed(self, text: str) -> bool:
        """Hold a part of the text back; return whether the answer can still be calls."""
        self._held.append(text)
        return self._add(self._parser.feed(text))

    def finish(self, *, cut: bool) -> list[Piece]:
        """End the text: return the pieces of its calls, none if it is something else."""
        fits = self._add(self._parser.finish(cut=cut))
        return self._pieces if fits and any(isinstance(p, CallName) for p in self._pieces) else []

    def _add(self, pieces: list[Piece]) -> bool:
        for piece in pieces:
            if isinstance(piece, ContentText) and piece.text.strip():
                return False
            if isinstance(piece, CallName) and not self._is_known(piece.name):
                return False
        self._pieces += pieces
        return True
