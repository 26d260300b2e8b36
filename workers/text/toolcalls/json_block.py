"""The base class of formats whose calls are JSON objects in blocks; calls stream.

A block begins with a delimiter or, where the format allows it, at the start of the answer. Commas
and semicolons between its objects are markup, and so is a list around them.
"""

from __future__ import annotations

from collections.abc import Sequence

from workers.text.toolcalls.block import BlockParser
from workers.text.toolcalls.reader.source import Reading


class JsonBlockParser(BlockParser):
    """Parses answers that hold such blocks.

    Args:
        opening: text that begins a block; "" if only the start of the answer does.
        closing: text that ends it; "" if the last bracket does.
        bare: whether the answer may begin with a block that has no opening.
    """

    def __init__(
        self, opening: str, closing: str, markers: Sequence[str] = (), *, bare: bool = False
    ) -> None:
        closings = (closing,) if closing else ()
        own = [text for text in (opening, closing) if text]
        super().__init__(
            {opening: closings, "": closings}, markers or own, chains=True, streams=True
        )
        self._bare = bare

    def _read(self) -> Reading[None]:
        if self._bare:
            yield from self._read_bare()
        yield from super()._read()

    def _read_bare(self) -> Reading[None]:
        """Read the block at the start of the answer, if there is one."""
        self._source.keep()
        yield from self._source.skip_space()
        if (yield from self._read_value(bare=True)):
            self._source.forget()
            yield from self._read_rest("")
        else:
            # A delimiter may follow inside it: search that text again.
            self._source.rewind()

    def _read_call(self) -> Reading[bool]:
        return (yield from self._read_value())
