"""The notation of Gemma's calls: `call:get_weather{city:"Paris",days:2}`, with other quotes.

Calls follow one another between delimiters. Keys are bare, strings are enclosed by the family's
marks without escapes, and objects and arrays nest as in JSON. Values are converted by the tool's
schema: a string whose parameter has another type is converted to it, and so is a bare word. Pure.
"""

from __future__ import annotations

import re

from workers.text.toolcalls.conversion import convert_value
from workers.text.toolcalls.format import ParsedCall, Tools
from workers.text.toolcalls.quoted_block import ParsedBody, QuotedBlockParser
from workers.text.toolcalls.reader.json_text import render_array, render_object, to_json
from workers.text.toolcalls.reader.literal import LiteralReader, MalformedError
from workers.text.toolcalls.reader.quote import backslash_quote, verbatim_quote
from workers.text.toolcalls.schema import Schema

_NAME = re.compile(r"[\w.:-]+")
# The calls, or JSON in their place.
_START = re.compile(r"call:\s*([\w.:-]+)(?=\s*\{)|^\s*\[?\s*\{")
_KEY = re.compile(r"[^:,{}\[\]<\"]+(?=:)")
_BARE = re.compile(r"[^,{}\[\]<]+")


class NotationParser(QuotedBlockParser):
    """Parses answers with such calls.

    Args:
        opening, closing: the texts before and after calls.
        mark: the text before and after a string.
        tools: the schemas that convert values.
    """

    def __init__(self, opening: str, closing: str, mark: str, tools: Tools) -> None:
        super().__init__(opening, closing, (mark,), _START)
        self._mark = mark
        self._tools = tools

    def _parse_calls(self, body: str) -> ParsedBody:
        reader = _NotationReader(body, (verbatim_quote(self._mark), backslash_quote('"')))
        parsed = ParsedBody()
        try:
            while not reader.at_end():
                start = reader.offset
                parsed.calls.append(reader.call(self._tools, parsed))
                parsed.name = ""
        except MalformedError:
            parsed.ends_in_bare = reader.last_is_bare
            parsed.at_end = reader.at_end()
            parsed.rest = body[reader.start if parsed.name else start :]
        return parsed


class _NotationReader(LiteralReader):
    """Reads calls.

    Attributes:
        start: where the arguments of the last call begin.
        last_is_bare: whether the last value has no delimiter.
    """

    start = 0
    last_is_bare = False

    def call(self, tools: Tools, parsed: ParsedBody) -> ParsedCall:
        """Read a call; `parsed` holds its name and its members so far."""
        self.expect("call:")
        self.skip()
        name = self.match(_NAME) or self.fail()
        self.start = self.offset
        parsed.begin(name, self.offset + 1)
        parameters = tools.get(name, {})
        schema = Schema(parameters, parameters)
        self.skip()
        self.items("{", "}", lambda: self._add_member(schema, parsed))
        return ParsedCall(name, parsed.arguments)

    def _add_member(self, schema: Schema, parsed: ParsedBody) -> None:
        parsed.members.append(self._entry(schema))
        parsed.members_end = self.offset

    def _object(self, schema: Schema) -> str:
        self.skip()
        return render_object(dict(self.items("{", "}", lambda: self._entry(schema))))

    def _entry(self, schema: Schema) -> tuple[str, str]:
        self.skip()
        key = self.string()
        if key is None:
            key = (self.match(_KEY) or self.fail()).strip()
        self.expect(":")
        return key, self._typed_value(schema.member(key))

    def _typed_value(self, schema: Schema) -> str:
        self.skip()
        self.last_is_bare = False
        if self.text.startswith("{", self.offset):
            return self._object(schema)
        if self.text.startswith("[", self.offset):
            return render_array(self.items("[", "]", lambda: self._typed_value(schema.element())))
        string = self.string()
        if string is None:
            self.last_is_bare = True
            return convert_value((self.match(_BARE) or self.fail()).strip(), schema)
        is_string = not schema.kinds or "string" in schema.kinds
        return to_json(string) if is_string else convert_value(string, schema)
