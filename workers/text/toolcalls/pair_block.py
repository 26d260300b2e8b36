"""Blocks that hold a function's name and pairs of tags for keys and values, as plain text.

    <tool_call>get_weather
    <arg_key>city</arg_key>
    <arg_value>Paris</arg_value>
    </tool_call>

The base of GLM's and LongCat's formats, whose tags differ by a prefix. A value ends at the first
`</arg_value>` and has no escapes. White space between tags and around names and keys is markup;
in a value it is part of the value. A JSON object as Hermes models write it, in place of name and
pairs, is accepted too.
"""

from __future__ import annotations

from collections.abc import Sequence

from workers.text.toolcalls.block import (
    BlockParser,
    read_json,
    read_name,
    read_one,
    read_up_to,
)
from workers.text.toolcalls.conversion import convert_all
from workers.text.toolcalls.format import ParsedCall, Tools
from workers.text.toolcalls.json_call import parse_calls
from workers.text.toolcalls.reader.source import Reading


class PairBlockParser(BlockParser):
    """Parses answers that hold such blocks.

    Args:
        prefix: of the tags.
    """

    def __init__(self, prefix: str, tools: Tools) -> None:
        self._closing = f"</{prefix}tool_call>"
        super().__init__({f"<{prefix}tool_call>": (self._closing,)})
        self._prefix = prefix
        self._tools = tools

    def _read_calls(self) -> Reading[Sequence[ParsedCall] | None]:
        if (yield from self._source.peek()) == "{":
            text = yield from read_json(self._source)
            return None if text is None else parse_calls(text, "name", "arguments")
        name = yield from read_name(self._source)
        pairs = yield from self._read_pairs()
        # Without the closing tag the pairs may be incomplete.
        if not name or pairs is None or not (yield from self._source.look((self._closing,))):
            return None
        return [ParsedCall(name, convert_all(pairs, self._tools.get(name, {})))]

    def _read_pairs(self) -> Reading[list[tuple[str, str]] | None]:
        pairs: list[tuple[str, str]] = []
        while True:
            yield from self._source.skip_space()
            if not (yield from read_one(self._source, f"<{self._prefix}arg_key>")):
                return pairs
            key = yield from read_up_to(self._source, f"</{self._prefix}arg_key>")
            yield from self._source.skip_space()
            if not (yield from read_one(self._source, f"<{self._prefix}arg_value>")):
                return None
            value = yield from read_up_to(self._source, f"</{self._prefix}arg_value>")
            if key is None or value is None:
                return None
            pairs.append((key.strip(), value))


def tags(prefix: str) -> tuple[str, ...]:
    """Return the tags with a prefix."""
    names = ("tool_call", "arg_key", "arg_value")
    return tuple(f"<{slash}{prefix}{name}>" for name in names for slash in ("", "/"))
