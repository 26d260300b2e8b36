"""Calls of LFM2 and some Llama and Nemotron models, written as Python.

    <|tool_call_start|>[get_weather(city="Paris", days=2), get_time(zone="CET")]<|tool_call_end|>

Arguments are named; values are literals, lists and dicts, and JSON's constants are allowed.
Nothing is evaluated. A parameter that the tool's schema declares as a string keeps its raw text if
it is not a Python string. The JSON list of calls that LFM2 can be asked for is accepted too. White
space inside a block but outside strings is markup.
Source: the chat templates and tool-use guide of LFM2 and LFM2.5.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from workers.text.toolcalls import json_call
from workers.text.toolcalls.format import Format, ParsedCall, Tools
from workers.text.toolcalls.quoted_block import QuotedBlockParser
from workers.text.toolcalls.reader.json_text import render_object, to_json
from workers.text.toolcalls.reader.literal import LiteralReader, MalformedError
from workers.text.toolcalls.schema import Schema

_OPENING = "<|tool_call_start|>"
_CLOSING = "<|tool_call_end|>"
_NAME = re.compile(r"[\w.-]+")
_KEY = re.compile(r"[^\W\d]\w*")


class PythonicParser(QuotedBlockParser):
    def __init__(self, tools: Tools) -> None:
        super().__init__(_OPENING, _CLOSING, ('"', "'"), escapes=True)
        self._tools = tools

    def _parse_calls(self, body: str) -> Sequence[ParsedCall] | None:
        reader = _PythonicReader(body, self._tools)
        try:
            calls = reader.calls()
        except MalformedError:
            return json_call.parse_calls(body, "name", "arguments")
        return calls if reader.at_end() else None


class _PythonicReader(LiteralReader):
    def __init__(self, text: str, tools: Tools) -> None:
        super().__init__(text)
        self._tools = tools

    def calls(self) -> list[ParsedCall]:
        """Read a list of calls, or one call without brackets."""
        self.skip()
        if self.text.startswith("[", self.offset):
            return self.items("[", "]", self._call)
        return [self._call()]

    def _call(self) -> ParsedCall:
        self.skip()
        name = self.match(_NAME) or self.fail()
        parameters = self._tools.get(name, {})
        schema = Schema(parameters, parameters)
        self.skip()
        return ParsedCall(
            name, render_object(dict(self.items("(", ")", lambda: self._argument(schema))))
        )

    def _argument(self, schema: Schema) -> tuple[str, str]:
        self.skip()
        key = self.match(_KEY) or self.fail()
        self.expect("=")
        self.skip()
        start = self.offset
        literal = self.value()
        if literal.kind != "string" and schema.member(key).is_text:
            return key, to_json(self.text[start : self.offset])
        return key, literal.text


FORMAT = Format(
    name="pythonic",
    markers=(_OPENING, _CLOSING),
    detect=lambda template: _OPENING in template or "<|tool_list_start|>" in template,
    parser=PythonicParser,
)
