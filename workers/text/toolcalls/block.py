"""The base class of formats with blocks of calls.

A block is an opening delimiter, one or more calls, and a closing delimiter. White space around the
calls of a block is markup; everything outside blocks is content, including white space. Text in a
block that is no call is content, without markers, and so is text between a call and the closing
delimiter, which may be missing.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence

from workers.text.toolcalls.call_object import CallObject
from workers.text.toolcalls.reader.source import Reading, Source
from workers.text.toolcalls.stream import StreamParser, strip_markers

# A function's name where no tag or line encloses it.
_NAME = re.compile(r"""[^\s<>()\[\]{}"'`|=,;]+""")
_SEPARATORS = re.compile(r"[ \t\r\n,;]+")
# What is left of a bracket too many.
_BRACKETS = "}])"
_JOINTS = re.compile(r"[\s,;}\])]+")


class BlockParser(StreamParser):
    """Parses answers that hold blocks.

    Args:
        blocks: each opening delimiter with its closing ones; none if the block ends with its
            call. No delimiter contains another, except in its tail.
        markers: all delimiters of the format; outside blocks they are dropped.
        many: whether a block may hold several calls.
        texts: openings that are content where no call follows.
        chains: whether several calls may follow an opening that has no closing.

    Attributes:
        opening: the delimiter of the block whose first call is being read; "" after that call.
    """

    def __init__(
        self,
        blocks: Mapping[str, Sequence[str]],
        markers: Sequence[str],
        *,
        many: bool = False,
        chains: bool = False,
        texts: Sequence[str] = (),
        streams: bool = False,
    ) -> None:
        super().__init__(markers, streams=streams)
        self._blocks = blocks
        self._wanted = tuple(dict.fromkeys((*filter(None, blocks), *markers)))
        self._many = many or chains
        self._chains = chains
        self._texts = texts
        self.opening = ""

    @abstractmethod
    def _read_call(self) -> Reading[bool]:
        """Read a call, or one value that holds several, at the next character.

        Returns:
            False where there is none; what was read since is then content.
        """

    def _read(self) -> Reading[None]:
        while found := (yield from self._source.find(self._wanted, self._out.text)):
            if found in self._blocks:
                yield from self._read_block(found)

    def _read_block(self, opening: str) -> Reading[None]:
        """Read what follows an opening, up to the closing or to text that is no call."""
        self.opening = opening
        closings = self._blocks[opening]
        self._source.keep(opening if opening in self._texts else "")
        yield from self._source.skip_space()
        if closings and (yield from self._source.read_closing(closings)):
            self._source.forget()
        elif (yield from self._read_call()):
            yield from self._read_rest(opening)
        else:
            yield from self._leave(opening)

    def _read_rest(self, opening: str) -> Reading[None]:
        """Read what follows the first call of a block, up to its end."""
        self.opening = ""
        closings = self._blocks[opening]
        while closings or self._chains:
            self._source.keep()
            if (yield from self._read_end(closings)):
                text = "" if closings and opening else self._source.release()
                self._out.text(text if text.isspace() else "")
                break
            if not self._many or not (yield from self._read_call()):
                yield from self._leave(opening, called=True)
                break
        self._source.forget()

    def _read_end(self, closings: Sequence[str]) -> Reading[bool]:
        """Read what joins calls; return whether the block ends there."""
        yield from self._source.read_run(_SEPARATORS)
        if closings and (yield from self._source.read_closing(closings)):
            return True
        char = yield from self._source.peek()
        if char and char in _BRACKETS and not (yield from self._source.look(self._wanted)):
            yield from self._source.read_run(_JOINTS)
            if closings and (yield from self._source.read_closing(closings)):
                return True
            char = yield from self._source.peek()
        return char == ""

    def _leave(self, opening: str, *, called: bool = False) -> Reading[None]:
        """Give the text that is no call as content."""
        yield from self._source.skip_beginning(self._wanted)
        text = self._source.release()
        if self._source.cut_off:
            return
        if opening in self._texts and not called:
            self._out.text(text)
        elif called or text.strip() or not self._blocks[opening]:
            self._out.text(strip_markers(text, self._markers))

    def _read_value(self, *, bare: bool = False) -> Reading[bool]:
        """Read a call written as JSON, or a list of them; return whether there was one."""
        char = yield from self._source.peek()
        if char == "{":
            return (yield from self._read_object(bare=bare))
        if char != "[" or (yield from self._source.look(self._wanted)):
            return False
        return (yield from self._read_list(bare=bare))

    def _read_object(self, *, bare: bool) -> Reading[bool]:
        call = CallObject(self._source, self._out, bare=bare)
        complete = yield from call.read()
        if call.started and not complete:
            self._give_rest()
        return call.started

    def _read_list(self, *, bare: bool) -> Reading[bool]:
        self._source.skip()
        char = yield from self._source.skip_space()
        # Without a delimiter an empty list is text.
        called = char == "]" and not bare
        while char == "{":
            if not (yield from self._read_object(bare=bare)):
                break
            called = True
            self._source.keep()
            char = yield from self._source.skip_space()
            if char == ",":
                self._source.skip()
                char = yield from self._source.skip_space()
        if called and char == "]":
            self._source.skip()
        elif called:
            self._give_rest()
        return called

    def _give_rest(self) -> None:
        """Give what was read behind a call, and is none, as content."""
        text = self._source.release()
        if not self._source.cut_off and not _JOINTS.fullmatch(text):
            self._out.text(strip_markers(text, self._markers))


def read_one(source: Source, *options: str) -> Reading[str]:
    """Read whichever of some texts comes next; return it, or "" with nothing read."""
    found = yield from source.look(options)
    source.skip(len(found))
    return found


def read_name(source: Source) -> Reading[str]:
    """Read a function's name; "" where there is none."""
    return (yield from source.read_run(_NAME))


def read_loose(
    source: Source, end: str, others: Sequence[str], starts: Sequence[str]
) -> Reading[str | None]:
    """Read a value up to its end and past it; None if the text was cut off before.

    Args:
        others: delimiters before which a value ends if its own end is missing, that is, if
            one of `starts` or nothing comes after them before it.
    """
    parts: list[str] = []
    found = yield from source.find((end, *others), parts.append, past=False)
    if not found:
        return None if source.cut_off else "".join(parts)
    source.keep()
    source.skip(len(found))
    after = found
    more = [found]
    if found != end:
        after = yield from source.find((end, *starts), more.append)
    if after != end:
        source.rewind()
        return "".join(parts).removesuffix("\n")
    source.forget()
    return "".join(parts if found == end else (*parts, *more))
