"""Calls as JSON objects, one or a list of them, behind a delimiter or at the answer's beginning.

White space inside a block, around and between its objects, is markup, and so are the commas and
semicolons between them. Everything outside is content, white space too. A block that begins with
no call is content from its opening delimiter on; after a call, what is neither a call nor the
closing delimiter is content.
"""

from __future__ import annotations

import re

from workers.text.toolcalls.call_object import CallObject
from workers.text.toolcalls.reader.source import Reading
from workers.text.toolcalls.stream import StreamParser

_SEPARATORS = re.compile(r"[ \t\r\n,;]+")


class JsonBlockParser(StreamParser):
    """Reads answers that hold such blocks.

    Args:
        opening: text that begins a block; "" where only the answer's beginning does.
        closing: text that ends it; "" where the last bracket does.
        bare: whether the answer may begin with a block that has no opening.
    """

    def __init__(self, opening: str, closing: str, *, bare: bool = False) -> None:
        super().__init__()
        self._opening = opening
        self._closing = closing
        self._bare = bare

    def _read(self) -> Reading[None]:
        # Whether the last block's calls are given and its end is still to come.
        inside = self._bare and (yield from self._read_block(""))
        while True:
            wanted = (self._opening, self._closing if inside else "")
            found = yield from self._source.find([d for d in wanted if d], self._out.text)
            if not found:
                return
            inside = found == self._opening and (yield from self._read_block(found))

    def _read_block(self, opening: str) -> Reading[bool]:
        """Read what follows an opening; return whether the closing is still to come."""
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
            # A delimiter may stand in it, which is none of JSON's own.
            self._source.rewind()
            return False
        text = self._source.release()
        # White space in an object that breaks off is none of the content.
        self._out.text(text if complete or text.strip() else "")
        return started and self._closing != "" and not bare

    def _read_separator(self, *, listed: bool) -> Reading[str]:
        """Read what may stand between two objects; return the character after it."""
        char = yield from self._source.skip_space()
        if not listed:
            yield from self._source.read_run(_SEPARATORS)
            return (yield from self._source.peek())
        if char == ",":
            self._source.skip()
            char = yield from self._source.skip_space()
        return char

    def _read_end(self, *, listed: bool) -> Reading[bool]:
        """Read what ends a block after its last object; return whether it is there."""
        if listed:
            if (yield from self._source.peek()) != "]":
                return False
            self._source.skip()
            self._source.keep()
        if not self._closing:
            return listed
        yield from self._source.skip_space()
        return (yield from self._source.read_closing((self._closing,))) != ""
