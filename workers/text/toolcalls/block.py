"""The base class of formats with blocks of calls; each call is returned once it is complete.

A block is an opening delimiter, one or more calls, and a closing delimiter. White space around
the calls of a block is markup; everything outside blocks is content, including white space. A
block that does not begin with a call is content from its opening on; after a call, anything but
a call or the closing delimiter is content. At the end of the text the closing delimiter may be
missing, but an incomplete call is content.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence

from workers.text.toolcalls.format import ParsedCall
from workers.text.toolcalls.reader.json_scanner import read_value
from workers.text.toolcalls.reader.literal import read_object
from workers.text.toolcalls.reader.source import Reading, Source
from workers.text.toolcalls.stream import StreamParser

# A function's name where no tag or line encloses it.
_NAME = re.compile(r"""[^\s<>()\[\]{}"'`|=,;]+""")


class BlockParser(StreamParser):
    """Parses answers that hold blocks.

    Args:
        blocks: each opening delimiter with its closing ones; none if the block ends with its
            call. No delimiter contains another, except in its tail.
        many: whether a block may hold several calls.

    Attributes:
        opening: the delimiter of the block whose first call is being read; "" after that call.
    """

    def __init__(self, blocks: Mapping[str, Sequence[str]], *, many: bool = False) -> None:
        super().__init__()
        self._blocks = blocks
        self._many = many
        self.opening = ""

    @abstractmethod
    def _read_calls(self) -> Reading[Sequence[ParsedCall] | None]:
        """Read a call, or one value that holds several, at the next character.

        Returns:
            None where there is no call; what was read is then content.
        """

    def _read(self) -> Reading[None]:
        closings: Sequence[str] = ()
        while True:
            found = yield from self._source.find((*self._blocks, *closings), self._out.text)
            if not found:
                return
            closings = () if found in closings else (yield from self._read_block(found))

    def _read_block(self, opening: str) -> Reading[Sequence[str]]:
        """Read what follows an opening; return the closings if one is still expected."""
        closings = self._blocks.get(opening, ())
        self.opening = opening
        self._source.keep(opening)
        yield from self._source.skip_space()
        calls = yield from self._read_calls()
        if not calls:
            self._out.text(self._source.release())
            return ()
        self.opening = ""
        while calls:
            for call in calls:
                self._out.call(call)
            if not closings:
                self._source.forget()
                return ()
            self._source.keep()
            yield from self._source.skip_space()
            if (yield from self._source.read_closing(closings)):
                self._source.forget()
                return ()
            calls = (yield from self._read_calls()) if self._many else None
        text = self._source.release()
        self._out.text(text if text.strip() else "")
        return closings


def read_one(source: Source, *options: str) -> Reading[str]:
    """Read whichever of some texts comes next; return it, or "" with nothing read."""
    found = yield from source.look(options)
    source.skip(len(found))
    return found


def read_up_to(source: Source, delimiter: str) -> Reading[str | None]:
    """Read up to a delimiter and past it; return the text before it, None if it never comes."""
    parts: list[str] = []
    found = yield from source.find((delimiter,), parts.append)
    return "".join(parts) if found else None


def read_name(source: Source) -> Reading[str]:
    """Read a function's name; "" where there is none."""
    return (yield from source.read_run(_NAME))


def read_json(source: Source) -> Reading[str | None]:
    """Read a complete but unchecked object or list; None where there is none."""
    if (yield from source.skip_space()) not in ("{", "["):
        return None
    parts: list[str] = []
    complete = yield from read_value(source, parts.append)
    return "".join(parts) if complete else None


def read_arguments(source: Source) -> Reading[str | None]:
    """Read a JSON object; None where there is none."""
    text = yield from read_json(source)
    return None if text is None else read_object(text)
