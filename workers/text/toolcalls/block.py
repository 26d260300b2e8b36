"""Calls that stand in blocks and are given whole, each once it is complete.

A block is an opening delimiter, one call or several, and a closing one. White space around the
calls of a block is markup; everything outside blocks is content, white space too. A block that
begins with no call is content from its opening on; after a call, what is neither a call nor the
closing delimiter is content. The text may end without a block's closing, but a call that is not
complete is content.
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

# What a function's name may be made of where no tag or line encloses it.
_NAME = re.compile(r"""[^\s<>()\[\]{}"'`|=,;]+""")


class BlockParser(StreamParser):
    """Reads answers that hold blocks.

    Args:
        blocks: the texts that begin a block, with those that end it; none where the end of its
            call does. No text stands inside another, but for its tail.
        many: whether further calls may follow the first in a block.

    Attributes:
        opening: what began the block whose first call is read; "" behind that call.
    """

    def __init__(self, blocks: Mapping[str, Sequence[str]], *, many: bool = False) -> None:
        super().__init__()
        self._blocks = blocks
        self._many = many
        self.opening = ""

    @abstractmethod
    def _read_calls(self) -> Reading[Sequence[ParsedCall] | None]:
        """Read what stands at the next character: a call, or one value that holds several.

        Returns:
            None where there is no call. What was read is given back then.
        """

    def _read(self) -> Reading[None]:
        closings: Sequence[str] = ()
        while True:
            found = yield from self._source.find((*self._blocks, *closings), self._out.text)
            if not found:
                return
            closings = () if found in closings else (yield from self._read_block(found))

    def _read_block(self, opening: str) -> Reading[Sequence[str]]:
        """Read what follows an opening; return the closings if one is still to come."""
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
    """Read which of some texts comes next; return it, or "" with nothing read."""
    found = yield from source.look(options)
    source.skip(len(found))
    return found


def read_up_to(source: Source, delimiter: str) -> Reading[str | None]:
    """Read the text before a delimiter, and that; return it, None where it never comes."""
    parts: list[str] = []
    found = yield from source.find((delimiter,), parts.append)
    return "".join(parts) if found else None


def read_name(source: Source) -> Reading[str]:
    """Read a function's name; "" where there is none."""
    return (yield from source.read_run(_NAME))


def read_json(source: Source) -> Reading[str | None]:
    """Read an object or a list, complete but not checked; None where there is none."""
    if (yield from source.skip_space()) not in ("{", "["):
        return None
    parts: list[str] = []
    complete = yield from read_value(source, parts.append)
    return "".join(parts) if complete else None


def read_arguments(source: Source) -> Reading[str | None]:
    """Read a JSON object; None where there is none."""
    text = yield from read_json(source)
    return None if text is None else read_object(text)
