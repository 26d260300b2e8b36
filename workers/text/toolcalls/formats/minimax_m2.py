"""Calls of MiniMax M2, in XML.

    <minimax:tool_call>
    <invoke name="get_weather">
    <parameter name="city">Paris</parameter>
    <parameter name="days">2</parameter>
    </invoke>
    </minimax:tool_call>

A block may hold several `<invoke>` elements; one outside a block is a call too. A parameter ends
at the first `</parameter>` and has no escapes; without one it ends with the call. White space
between tags is markup; in a parameter it is part of the value.
Source: MiniMax M2's chat template and tool-calling guide.
"""

from __future__ import annotations

import re

from workers.text.toolcalls.arguments import cut_object
from workers.text.toolcalls.block import BlockParser, read_loose, read_one
from workers.text.toolcalls.conversion import convert_all
from workers.text.toolcalls.format import Format, ParsedCall, Tools
from workers.text.toolcalls.reader.source import Reading

_OPENING = "<minimax:tool_call>"
_CLOSING = "</minimax:tool_call>"
_INVOKE = "<invoke name="
_END_INVOKE = "</invoke>"
_PARAMETER = "<parameter name="
_END_PARAMETER = "</parameter>"
_MARKERS = (_OPENING, _CLOSING, _INVOKE, _END_INVOKE, _PARAMETER, _END_PARAMETER)
_ATTRIBUTE = re.compile(r"[^<>\r\n]+")


class MinimaxM2Parser(BlockParser):
    def __init__(self, tools: Tools) -> None:
        super().__init__({_OPENING: (_CLOSING,), _INVOKE: ()}, _MARKERS, many=True)
        self._tools = tools

    def _read_call(self) -> Reading[bool]:
        if self.opening != _INVOKE and not (yield from read_one(self._source, _INVOKE)):
            return False
        name = yield from self._read_attribute()
        if not name:
            return False
        pairs, cut = yield from self._read_pairs()
        arguments = convert_all(pairs, self._tools.get(name, {}))
        self._out.call(ParsedCall(name, cut_object(arguments) if cut else arguments))
        return True

    def _read_pairs(self) -> Reading[tuple[list[tuple[str, str]], bool]]:
        """Read the complete parameters; return them and whether the text was cut off after them."""
        pairs: list[tuple[str, str]] = []
        while True:
            yield from self._source.skip_space()
            if (yield from read_one(self._source, _END_INVOKE)):
                return pairs, False
            if not (yield from read_one(self._source, _PARAMETER)):
                yield from self._source.skip_beginning(_MARKERS)
                return pairs, self._source.cut_off
            name = yield from self._read_attribute()
            value: str | None = None
            if name:
                others, starts = (_END_INVOKE, _CLOSING), (_PARAMETER, _INVOKE)
                value = yield from read_loose(self._source, _END_PARAMETER, others, starts)
            if value is not None:
                pairs.append((name, value))
            elif self._source.at_end:
                return pairs, self._source.cut_off

    def _read_attribute(self) -> Reading[str]:
        """Read an attribute's value and the end of its tag; "" if the tag does not end."""
        text = (yield from self._source.read_run(_ATTRIBUTE)).strip()
        if not (yield from read_one(self._source, ">")):
            return ""
        quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
        return text[1:-1] if quoted else text


FORMAT = Format(
    name="minimax_m2",
    markers=_MARKERS,
    begins=(_OPENING, _INVOKE),
    detect=lambda template: _OPENING in template,
    parser=MinimaxM2Parser,
)
