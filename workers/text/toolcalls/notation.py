"""The notation of Gemma's calls: `call:get_weather{city:"Paris",days:2}` with marks of its own.

Calls follow one another between delimiters. Keys stand bare, strings between the family's marks
with nothing escaped in them, nested objects and arrays as in JSON. Values are converted by the
tool's schema: a string that is declared to be something else may hold that, and a bare word is
what the schema makes of it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from workers.text.toolcalls.conversion import convert_value
from workers.text.toolcalls.format import ParsedCall, Tools, to_json
from workers.text.toolcalls.quoted_block import QuotedBlockParser
from workers.text.toolcalls.reader.literal import MalformedError, Reader, array_of, object_of
from workers.text.toolcalls.reader.quote import backslash_quote, verbatim_quote
from workers.text.toolcalls.schema import Schema

_NAME = re.compile(r"[\w.-]+")
_KEY = re.compile(r"[^:,{}\[\]<\"]+(?=:)")
_BARE = re.compile(r"[^,{}\[\]<]+")


class NotationParser(QuotedBlockParser):
    """Reads answers with such calls.

    Args:
        opening, closing: what stands before and after calls.
        mark: what strings stand between.
        tools: by whose schemas values are converted.
    """

    def __init__(self, opening: str, closing: str, mark: str, tools: Tools) -> None:
        super().__init__(opening, closing, (mark,))
        self._mark = mark
        self._tools = tools

    def _calls_of(self, body: str) -> Sequence[ParsedCall] | None:
        return calls_of(body, self._mark, self._tools)


def calls_of(body: str, mark: str, tools: Tools) -> list[ParsedCall] | None:
    """Return the calls written one after the other in a text; None if it is anything else.

    Args:
        mark: what strings stand between.
    """
    reader = _CallReader(body, (verbatim_quote(mark), backslash_quote('"')))
    calls: list[ParsedCall] = []
    try:
        while not reader.at_end():
            calls.append(reader.call(tools))
    except MalformedError:
        return None
    return calls


class _CallReader(Reader):
    """Reads this notation."""

    def call(self, tools: Tools) -> ParsedCall:
        self.expect("call:")
        self.skip()
        name = self.match(_NAME) or self.fail()
        parameters = tools.get(name, {})
        return ParsedCall(name, self._object(Schema(parameters, parameters)))

    def _object(self, schema: Schema) -> str:
        self.skip()
        return object_of(dict(self.items("{", "}", lambda: self._entry(schema))))

    def _entry(self, schema: Schema) -> tuple[str, str]:
        self.skip()
        key = self.string()
        if key is None:
            key = (self.match(_KEY) or self.fail()).strip()
        self.expect(":")
        return key, self._typed_value(schema.member(key))

    def _typed_value(self, schema: Schema) -> str:
        self.skip()
        if self.text.startswith("{", self.place):
            return self._object(schema)
        if self.text.startswith("[", self.place):
            return array_of(self.items("[", "]", lambda: self._typed_value(schema.element())))
        string = self.string()
        if string is None:
            return convert_value((self.match(_BARE) or self.fail()).strip(), schema)
        is_string = not schema.kinds or "string" in schema.kinds
        return to_json(string) if is_string else convert_value(string, schema)
