"""Blocks that hold a function's name and pairs of tags for keys and values, as plain text.

    <tool_call>get_weather
    <arg_key>city</arg_key>
    <arg_value>Paris</arg_value>
    </tool_call>

The base of GLM's and LongCat's formats, whose tags differ by a prefix. A value ends at the first
`</arg_value>` and has no escapes. White space between tags and around names and keys is markup;
in a value it is part of the value. A JSON object as Hermes models write it, in place of name and
pairs, is accepted too. A value whose end is missing ends with the next key or with the call.
"""

from __future__ import annotations

from workers.text.toolcalls.arguments import cut_object
from workers.text.toolcalls.block import BlockParser, read_loose, read_name, read_one
from workers.text.toolcalls.conversion import convert_all
from workers.text.toolcalls.format import ParsedCall, Tools
from workers.text.toolcalls.reader.source import Reading


class PairBlockParser(BlockParser):
    """Parses answers that hold such blocks.

    Args:
        prefix: of the tags.
    """

    def __init__(self, prefix: str, tools: Tools) -> None:
        markers = tags(prefix)
        self._opening, self._closing, self._key, self._end_key, self._value, self._end_value = (
            markers
        )
        super().__init__({self._opening: (self._closing,)}, markers)
        self._tools = tools

    def _read_call(self) -> Reading[bool]:
        if (yield from self._read_value()):
            return True
        name = yield from read_name(self._source)
        after = yield from self._source.skip_space()
        tag = yield from self._source.look((self._key, self._closing))
        yield from self._source.skip_beginning((self._key, self._closing))
        # Without a tag behind it, only a declared name is one.
        if not name or self._source.cut_off or not (tag or (not after and name in self._tools)):
            return False
        pairs, cut = yield from self._read_pairs()
        arguments = convert_all(pairs, self._tools.get(name, {}))
        self._out.call(ParsedCall(name, cut_object(arguments) if cut else arguments))
        return True

    def _read_pairs(self) -> Reading[tuple[list[tuple[str, str]], bool]]:
        """Read the complete pairs; return them and whether the text was cut off after them."""
        pairs: list[tuple[str, str]] = []
        while True:
            yield from self._source.skip_space()
            if (yield from self._source.look((self._key, self._closing))) != self._key:
                yield from self._source.skip_beginning(self._markers)
                return pairs, self._source.cut_off
            self._source.skip(len(self._key))
            parts: list[str] = []
            ends = (self._end_key, self._value, self._closing)
            found = yield from self._source.find(ends, parts.append, past=False)
            if found == self._end_key:
                self._source.skip(len(found))
                yield from self._source.skip_space()
            opened = yield from read_one(self._source, self._value)
            if opened:
                starts = (self._value, self._opening)
                others = (self._closing, self._key)
                value = yield from read_loose(self._source, self._end_value, others, starts)
                if value is not None:
                    pairs.append(("".join(parts).strip(), value))
            if self._source.at_end and (not opened or value is None):
                return pairs, self._source.cut_off


def tags(prefix: str) -> tuple[str, ...]:
    """Return the tags with a prefix."""
    names = ("tool_call", "arg_key", "arg_value")
    return tuple(f"<{slash}{prefix}{name}>" for name in names for slash in ("", "/"))
