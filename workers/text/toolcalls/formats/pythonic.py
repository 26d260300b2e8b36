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

from workers.text.toolcalls.format import Format, ParsedCall, Tools
from workers.text.toolcalls.quoted_block import ParsedBody, QuotedBlockParser
from workers.text.toolcalls.reader.json_text import to_json
from workers.text.toolcalls.reader.literal import LiteralReader, MalformedError
from workers.text.toolcalls.schema import Schema

_OPENING = "<|tool_call_start|>"
_CLOSING = "<|tool_call_end|>"
_NAME = re.compile(r"[\w.-]+")
_START = re.compile(r"\[?\s*([\w.-]+)(?=\s*\()|\[?\s*\{")
# The last characters of values that can't go on.
_DELIMITED = ('"', "'", "]", "}", ")", "(", ",")
_KEY = re.compile(r"[^\W\d]\w*")


class PythonicParser(QuotedBlockParser):
    def __init__(self, tools: Tools) -> None:
        super().__init__(_OPENING, _CLOSING, ('"', "'"), _START, escapes=True)
        self._tools = tools

    def _parse_calls(self, body: str) -> ParsedBody:
        reader = _PythonicReader(body, self._tools)
        parsed = ParsedBody()
        try:
            reader.calls(parsed)
        except MalformedError:
            parsed.ends_in_bare = reader.text[: reader.offset].rstrip()[-1:] not in _DELIMITED
            parsed.at_end = reader.at_end()
            parsed.rest = body[reader.start :]
        else:
            parsed.rest = body[reader.offset :]
        return parsed


class _PythonicReader(LiteralReader):
    """Reads calls.

    Attributes:
        start: where the arguments of the last call begin.
    """

    start = 0

    def __init__(self, text: str, tools: Tools) -> None:
        super().__init__(text)
        self._tools = tools

    def calls(self, parsed: ParsedBody) -> None:
        """Read a list of calls, or one call without brackets."""
        self.skip()
        if self.text.startswith("[", self.offset):
            self.items("[", "]", lambda: self._call(parsed))
        else:
            self._call(parsed)

    def _call(self, parsed: ParsedBody) -> None:
        self.skip()
        name = self.match(_NAME) or self.fail()
        self.skip()
        if not self.text.startswith("(", self.offset):
            self.fail()
        self.start = self.offset
        parsed.begin(name, self.offset + 1)
        parameters = self._tools.get(name, {})
        schema = Schema(parameters, parameters)
        self.items("(", ")", lambda: self._add_member(schema, parsed))
        parsed.calls.append(ParsedCall(name, parsed.arguments))
        parsed.name = ""

    def _add_member(self, schema: Schema, parsed: ParsedBody) -> None:
        parsed.members.append(self._argument(schema))
        parsed.members_end = self.offset

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
