"""Calls of DeepSeek V3 and R1 as their templates render them: a name, then JSON arguments.

    <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Paris"}
    <｜tool▁call▁end｜><｜tool▁calls▁end｜>

V3.1 writes this on one line. V3 and R1 write `function` first, the name after the separator, and
the arguments in a fence below it. White space between delimiters and around arguments is markup.
Hermes' blocks, which other templates of these models ask for, are accepted too.
Source: the chat templates of DeepSeek-V3-0324, DeepSeek-R1-0528 and DeepSeek-V3.1.
"""

from __future__ import annotations

from workers.text.toolcalls.arguments import read_arguments
from workers.text.toolcalls.block import BlockParser, read_name, read_one
from workers.text.toolcalls.format import Format
from workers.text.toolcalls.formats import hermes
from workers.text.toolcalls.reader.source import Reading

_OPENING = "<｜tool▁calls▁begin｜>"
_CLOSING = "<｜tool▁calls▁end｜>"
_CALL = "<｜tool▁call▁begin｜>"
_SEPARATOR = "<｜tool▁sep｜>"
_END_CALL = "<｜tool▁call▁end｜>"
_FENCE = "```"
# Stands before the separator in the older templates.
_KIND = "function"
_HERMES_OPENING, _HERMES_CLOSING = hermes.FORMAT.markers
_MARKERS = (_OPENING, _CLOSING, _CALL, _SEPARATOR, _END_CALL, *hermes.FORMAT.markers)


class DeepseekParser(BlockParser):
    def __init__(self) -> None:
        blocks = {
            _OPENING: (_CLOSING,),
            # After text in a block a call stands by itself.
            _CALL: (_CLOSING,),
            _HERMES_OPENING: (_HERMES_CLOSING,),
        }
        super().__init__(blocks, _MARKERS, many=True)

    def _read_call(self) -> Reading[bool]:
        if (yield from self._read_value()):
            return True
        if self.opening != _CALL and not (yield from read_one(self._source, _CALL)):
            return False
        name = yield from self._read_name()
        if not name:
            return False
        self._out.start(name)
        yield from self._read_fenced()
        self._out.end()
        yield from self._source.skip_space()
        yield from read_one(self._source, _END_CALL)
        return True

    def _read_name(self) -> Reading[str]:
        """Read what stands before the arguments; return the name, "" if it is not certain."""
        yield from self._source.skip_space()
        name = yield from read_name(self._source)
        yield from self._source.skip_space()
        separated = yield from read_one(self._source, _SEPARATOR)
        if name == _KIND and separated:
            yield from self._source.skip_space()
            name, separated = (yield from read_name(self._source)), ""
            yield from self._source.skip_space()
        yield from self._source.skip_beginning(_MARKERS)
        return "" if self._source.cut_off and not separated else name

    def _read_fenced(self) -> Reading[None]:
        """Read arguments with or without a fence."""
        yield from self._source.skip_space()
        fenced = yield from read_one(self._source, _FENCE)
        if fenced:
            yield from read_one(self._source, "json")
        yield from self._source.skip_beginning(("json",) if fenced else (_FENCE,))
        ends = (_FENCE, *_MARKERS) if fenced else _MARKERS
        yield from read_arguments(self._source, self._out.arguments, ends)
        if fenced:
            yield from self._source.skip_space()
            yield from read_one(self._source, _FENCE)
            yield from self._source.skip_beginning((_FENCE,))


FORMAT = Format(
    name="deepseek",
    markers=_MARKERS,
    detect=lambda template: _OPENING in template,
    parser=lambda _: DeepseekParser(),
)
