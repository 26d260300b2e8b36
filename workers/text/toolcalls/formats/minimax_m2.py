"""Calls of MiniMax M2, in XML.

    <minimax:tool_call>
    <invoke name="get_weather">
    <parameter name="city">Paris</parameter>
    <parameter name="days">2</parameter>
    </invoke>
    </minimax:tool_call>

A block may hold several `<invoke>` elements; one outside a block is a call too. A parameter ends
at the first `</parameter>` and has no escapes. White space between tags is markup; in a parameter
it is part of the value.
Source: MiniMax M2's chat template and tool-calling guide.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from workers.text.toolcalls.block import BlockParser, read_one, read_up_to
from workers.text.toolcalls.conversion import convert_all
from workers.text.toolcalls.format import Format, ParsedCall, Tools
from workers.text.toolcalls.reader.source import Reading

_OPENING = "<minimax:tool_call>"
_CLOSING = "</minimax:tool_call>"
_INVOKE = "<invoke name="
_END_INVOKE = "</invoke>"
_PARAMETER = "<parameter name="
_END_PARAMETER = "</parameter>"
_ATTRIBUTE = re.compile(r"[^<>\r\n]+")


class MinimaxM2Parser(BlockParser):
    def __init__(self, tools: Tools) -> None:
        super().__init__({_OPENING: (_CLOSING,), _INVOKE: ()}, many=True)
        self._tools = tools

    def _read_calls(self) -> Reading[Sequence[ParsedCall] | None]:
        if self.opening != _INVOKE and not (yield from read_one(self._source, _INVOKE)):
            return None
        name = yield from self._read_attribute()
        if not name:
            return None
        pairs: list[tuple[str, str]] = []
        while True:
            yield from self._source.skip_space()
            if (yield from read_one(self._source, _END_INVOKE)):
                return [ParsedCall(name, convert_all(pairs, self._tools.get(name, {})))]
            pair = yield from self._read_parameter()
            if pair is None:
                return None
            pairs.append(pair)

    def _read_parameter(self) -> Reading[tuple[str, str] | None]:
        if not (yield from read_one(self._source, _PARAMETER)):
            return None
        name = yield from self._read_attribute()
        value = (yield from read_up_to(self._source, _END_PARAMETER)) if name else None
        return None if value is None else (name, value)

    def _read_attribute(self) -> Reading[str]:
        """Read an attribute's value and the end of its tag; "" if the tag does not end."""
        text = (yield from self._source.read_run(_ATTRIBUTE)).strip()
        if not (yield from read_one(self._source, ">")):
            return ""
        quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
        return text[1:-1] if quoted else text


FORMAT = Format(
    name="minimax_m2",
    markers=(_OPENING, _CLOSING, _INVOKE, _END_INVOKE, _PARAMETER, _END_PARAMETER),
    detect=lambda template: _OPENING in template,
    parser=MinimaxM2Parser,
)
