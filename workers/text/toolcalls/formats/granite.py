"""Calls of Granite 3 models: JSON objects or a list of them, enclosed in three ways.

    <response><tool_call>{"name": "get_weather", "arguments": {…}}</tool_call></response>
    <|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris"}}]
    <tool_call>[{"name": "get_weather", "arguments": {"city": "Paris"}}]</tool_call>

A `<response>` block may hold several `<tool_call>` elements; around anything else it is content.
White space inside a block is markup.
Source: the chat templates of Granite 3.0 to 3.3 (`<|tool_call|>`), the known output of 3.1
(`<tool_call>`), and the answer tags of 3.3.
"""

from __future__ import annotations

import re

from workers.text.toolcalls.block import BlockParser, read_one
from workers.text.toolcalls.format import Format
from workers.text.toolcalls.reader.source import Reading

_RESPONSE = "<response>"
_END_RESPONSE = "</response>"
_CALL = "<tool_call>"
_END_CALL = "</tool_call>"
_TOKEN = "<|tool_call|>"  # noqa: S105 - a delimiter
_MARKERS = (_RESPONSE, _END_RESPONSE, _CALL, _END_CALL, _TOKEN)


class GraniteParser(BlockParser):
    def __init__(self) -> None:
        blocks = {_RESPONSE: (_END_RESPONSE,), _CALL: (_END_CALL,), _TOKEN: ()}
        super().__init__(blocks, _MARKERS, many=True)

    def _read_call(self) -> Reading[bool]:
        inner = yield from read_one(self._source, _CALL)
        called = yield from self._read_value()
        if called and inner:
            yield from self._source.skip_space()
            yield from read_one(self._source, _END_CALL)
        return called


def _detect(template: str) -> bool:
    return (_TOKEN in template and "<|start_of_role|>" in template) or (
        re.search(rf"{_RESPONSE}\s*{_CALL}", template) is not None
    )


FORMAT = Format(
    name="granite",
    markers=_MARKERS,
    begins=(f"{_RESPONSE}{_CALL}", _CALL, _TOKEN),
    detect=_detect,
    parser=lambda _: GraniteParser(),
)
