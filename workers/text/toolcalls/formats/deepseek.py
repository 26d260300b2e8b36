"""Calls of DeepSeek V3 and R1 as their templates render them: a name, then JSON arguments.

    <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Paris"}
    <｜tool▁call▁end｜><｜tool▁calls▁end｜>

V3.1 writes this on one line. V3 and R1 write `function` first, the name after the separator, and
the arguments in a fence below it. White space between delimiters and around arguments is markup.
Hermes' blocks, which other templates of these models ask for, are accepted too.
Source: the chat templates of DeepSeek-V3-0324, DeepSeek-R1-0528 and DeepSeek-V3.1.
"""

from __future__ import annotations

from collections.abc import Sequence

from workers.text.toolcalls.block import (
    BlockParser,
    read_arguments,
    read_json,
    read_name,
    read_one,
)
from workers.text.toolcalls.format import Format, ParsedCall
from workers.text.toolcalls.formats import hermes
from workers.text.toolcalls.json_call import parse_calls
from workers.text.toolcalls.reader.source import Reading

_OPENING = "<｜tool▁calls▁begin｜>"
_CLOSING = "<｜tool▁calls▁end｜>"
_CALL = "<｜tool▁call▁begin｜>"
_SEPARATOR = "<｜tool▁sep｜>"
_END_CALL = "<｜tool▁call▁end｜>"
_FENCE = "```"
_HERMES_OPENING, _HERMES_CLOSING = hermes.FORMAT.markers


class DeepseekParser(BlockParser):
    def __init__(self) -> None:
        super().__init__({_OPENING: (_CLOSING,), _HERMES_OPENING: (_HERMES_CLOSING,)}, many=True)

    def _read_calls(self) -> Reading[Sequence[ParsedCall] | None]:
        if (yield from self._source.peek()) in ("{", "["):
            text = yield from read_json(self._source)
            return None if text is None else parse_calls(text, "name", "arguments")
        if not (yield from read_one(self._source, _CALL)):
            return None
        yield from self._source.skip_space()
        name = yield from read_name(self._source)
        if not name or not (yield from read_one(self._source, _SEPARATOR)):
            return None
        if (yield from self._source.skip_space()) != "{":
            name = yield from read_name(self._source)
        arguments = yield from self._read_fenced()
        end = yield from self._source.skip_space()
        if not name or arguments is None:
            return None
        if end and not (yield from read_one(self._source, _END_CALL)):
            return None
        return [ParsedCall(name, arguments)]

    def _read_fenced(self) -> Reading[str | None]:
        """Read arguments with or without a fence."""
        yield from self._source.skip_space()
        fenced = yield from read_one(self._source, _FENCE)
        if fenced:
            yield from read_one(self._source, "json")
        arguments = yield from read_arguments(self._source)
        if fenced and (yield from self._source.skip_space()):
            closed = yield from read_one(self._source, _FENCE)
            return arguments if closed else None
        return arguments


FORMAT = Format(
    name="deepseek",
    markers=(_OPENING, _CLOSING, _CALL, _SEPARATOR, _END_CALL, *hermes.FORMAT.markers),
    detect=lambda template: _OPENING in template,
    parser=lambda _: DeepseekParser(),
)
