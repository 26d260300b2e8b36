"""Calls of Kimi K2: an id that holds the name, then JSON arguments.

    <|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0
    <|tool_call_argument_begin|>{"city": "Paris"}<|tool_call_end|><|tool_calls_section_end|>

This is on one line. Some checkpoints write `tool_call_section`. White space between delimiters
and around an id and its arguments is markup, and so are the model's ids.
Source: Moonshot's tool-call guidance for Kimi K2 and its chat template.
"""

from __future__ import annotations

import re

from workers.text.toolcalls.arguments import read_arguments
from workers.text.toolcalls.block import BlockParser, read_name, read_one
from workers.text.toolcalls.format import Format
from workers.text.toolcalls.reader.source import Reading

_OPENINGS = ("<|tool_calls_section_begin|>", "<|tool_call_section_begin|>")
_CLOSINGS = ("<|tool_calls_section_end|>", "<|tool_call_section_end|>")
_CALL = "<|tool_call_begin|>"
_ARGUMENTS = "<|tool_call_argument_begin|>"
_END_CALL = "<|tool_call_end|>"
_MARKERS = (*_OPENINGS, *_CLOSINGS, _CALL, _ARGUMENTS, _END_CALL)
_INDEX = re.compile(r":\d+$")


class KimiK2Parser(BlockParser):
    def __init__(self) -> None:
        # After text in a section a call stands by itself.
        blocks = {**dict.fromkeys(_OPENINGS, _CLOSINGS), _CALL: _CLOSINGS}
        super().__init__(blocks, _MARKERS, many=True)

    def _read_call(self) -> Reading[bool]:
        if self.opening != _CALL and not (yield from read_one(self._source, _CALL)):
            return False
        yield from self._source.skip_space()
        name = _INDEX.sub("", (yield from read_name(self._source)))
        yield from self._source.skip_space()
        yield from self._source.skip_beginning((_CALL, _END_CALL))
        if not name or self._source.cut_off:
            return False
        yield from read_one(self._source, _ARGUMENTS)
        self._out.start(name.removeprefix("functions."))
        yield from read_arguments(self._source, self._out.arguments, _MARKERS)
        self._out.end()
        yield from self._source.skip_space()
        yield from read_one(self._source, _END_CALL)
        return True


def _detect(template: str) -> bool:
    # The first template of the family does not render calls.
    return _OPENINGS[0] in template or ("<|im_middle|>" in template and "tool_declare" in template)


FORMAT = Format(
    name="kimi_k2",
    markers=_MARKERS,
    detect=_detect,
    parser=lambda _: KimiK2Parser(),
)
