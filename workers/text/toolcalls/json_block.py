"""The base class of formats whose calls are JSON objects, or a list of them; they stream.

A block begins with a delimiter or, where the format allows it, at the start of the answer. White
space around the objects of a block is markup, and so are commas and semicolons between them.
Everything outside blocks is content, including white space. A block that does not begin with a
call is content from its opening delimiter on; after a call, anything but a call or the closing
delimiter is content.
"""

from __future__ import annotations

import re

from workers.text.toolcalls.call_object import CallObject
from workers.text.toolcalls.reader.source import Reading
from workers.text.toolcalls.stream import StreamParser

_SEPARATORS = re.compile(r"[ \t\r\n,;]+")


class JsonBlockParser(StreamParser):
    """Parses answers that hold such blocks.

    Args:
        opening: text that begins a block; "" if only the start of the answer does.
        closing: text that ends it; "" if the last bracket does.
        bare: whether the answer may begin with a block that has no opening.
    """

    def __init__(self, opening: str, closing: str, *, bare: bool = False) -> None:
        super().__init__()
        self._opening = opening
        self._closing = closing
        self._bare = bare

    def _read(self) -> Reading[None]:
        # Whether the last block had calls and its closing delimiter is still expected.
        inside = self._bare and (yield from self._read_block(""))
        while True:
            wanted = (self._opening, self._closing if inside else "")
            found = yield from self._source.find([d for d in wanted if d], self._out.text)
            if not found:
                return
            inside = found == self._opening and (yield from self._read_block(found))

    def _read_block(self, opening: str) -> Reading[bool]:
        """Read what follows an opening; return whether the closing is still expected."""
        self._source.keep(opening)
        return (yield from self._read_objects(bare=not opening))

    def _read_objects(self, *, bare: bool = False) -> Reading[bool]:
        char = yield from self._source.skip_space()
        listed = char == "["
        if listed:
            self._source.skip()
            char = yield from self._source.skip_space()
        started, complete = False, True
        while char == "{":
            call = CallObject(self._source, self._out, bare=bare)
            complete = yield from call.read()
            started = started or call.started
            if not call.started or not complete:
                break
            char = yield from self._read_separator(listed=listed)
        else:
            if started and (yield from self._read_end(listed=listed)):
                self._source.forget()
                return False
        if bare and not started:
            # A delimiter may follow inside it: search that text again.
            self._source.rewind()
            return False
        text = self._source.release()
        # White space after an incomplete object is not content.
        self._out.text(text if complete or text.strip() else "")
        return started and self._closing != "" and not bare

    def _read_separator(self, *, listed: bool) -> Reading[str]:
        """Read the separator of two objects; return the character after it."""
        char = yield from self._source.skip_space()
        if not listed:
            yield from self._source.read_run(_SEPARATORS)
            return (yield from self._source.peek())
        if char == ",":
            self._source.skip()
            char = yield from self._source.skip_space()
        return char

    def _read_end(self, *, listed: bool) -> Reading[bool]:
        """Read the end of a block after its last object; return whether it is there."""
        if listed:
            if (yield from self._source.peek()) != "]":
                return False
            self._source.skip()
            self._source.keep()
        if not self._closing:
            return listed
        yield from self._source.skip_space()
        return (yield from self._source.read_closing((self._closing,))) != ""
