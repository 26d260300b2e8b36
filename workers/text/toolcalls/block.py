"""Calls that stand between two delimiters and are read once they are complete.

The base of every format that does not stream: it finds the blocks, holds back what may be the
beginning of a delimiter, and gives the block back as content when it is no call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workers.text.toolcalls.format import Call
from workers.text.toolcalls.source import Reading, partial_length
from workers.text.toolcalls.stream import StreamParser, join

__all__ = ["BlockParser", "Read", "join", "partial_length"]

# Returns the calls of a block's body, or None when it holds none.
Read = Callable[[str], Sequence[Call] | None]


class BlockParser(StreamParser):
    """Reads answers in which calls stand between `opening` and `closing`.

    A block without its end is read all the same.

    Args:
        opening: text that begins a block.
        closing: text that ends it.
        read: of the body between them.
    """

    def __init__(self, opening: str, closing: str, read: Read) -> None:
        super().__init__()
        self._opening = opening
        self._closing = closing
        self._read_body = read

    def _read(self) -> Reading[None]:
        while (yield from self._source.find((self._opening,), self._out.text)):
            body: list[str] = []
            closing = yield from self._source.find((self._closing,), body.append)
            self._close("".join(body), closing)

    def _close(self, body: str, closing: str) -> None:
        calls = self._read_body(body)
        if calls is None:
            self._out.text(self._opening + body + closing)
            return
        for call in calls:
            self._out.call(call)
