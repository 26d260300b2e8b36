"""The notation of Gemma's calls: `call:get_weather{city:"Paris",days:2}`, with other quotes.

Calls follow one another between delimiters. Keys are bare, strings are enclosed by the family's
marks without escapes, and objects and arrays nest as in JSON. Values are converted by the tool's
schema: a string whose parameter has another type is converted to it, and so is a bare word. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from workers.text.toolcalls.conversion import convert_value
from workers.text.toolcalls.format import ParsedCall, Tools
from workers.text.toolcalls.quoted_block import QuotedBlockParser
from workers.text.toolcalls.reader.json_text import render_array, render_object, to_json
from workers.text.toolcalls.reader.literal import LiteralReader, MalformedError
from workers.text.toolcalls.reader.quote import backslash_quote, verbatim_quote
from workers.text.toolcalls.schema import Schema

_NAME = re.compile(r"[\w.-]+")
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
        super().__init__(opening, closing, (mark,))
        self._mark = mark
        self._tools = tools

    def _parse_calls(self, body: str) -> Sequence[ParsedCall] | None:
        return parse_calls(body, self._mark, self._tools)


def parse_calls(body: str, mark: str, tools: Tools) -> list[ParsedCall] | None:
    """Return the calls of a text that holds nothing else; None if it does.

    Args:
        mark: the text before and after a string.
    """
    reader = _NotationReader(body, (verbatim_quote(mark), backslash_quote('"')))
    calls: list[ParsedCall] = []
    try:
        while not reader.at_end():
            calls.append(reader.call(tools))
    except MalformedError:
        return None
    return calls


class _NotationReader(LiteralReader):
    def call(self, tools: Tools) -> ParsedCall:
        self.expect("call:")
        self.skip()
        name = self.match(_NAME) or self.fail()
        parameters = tools.get(name, {})
        return ParsedCall(name, self._object(Schema(parameters, parameters)))

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
        if self.text.startswith("{", self.offset):
            return self._object(schema)
        if self.text.startswith("[", self.offset):
            return render_array(self.items("[", "]", lambda: self._typed_value(schema.element())))
        string = self.string()
        if string is None:
            return convert_value((self.match(_BARE) or self.fail()).strip(), schema)
        is_string = not schema.kinds or "string" in schema.kinds
        return to_json(string) if is_string else convert_value(string, schema)
