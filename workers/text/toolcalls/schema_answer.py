"""Tells calls from an answer that follows a schema, where a request allows both.

The grammar lets the answer be one of them as a whole, so the first piece that the format's parser
gives decides. A text that follows a schema is content to its end, whatever it looks like. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Container

from workers.text.toolcalls.format import CallName, ContentText, Parser, Piece

_JSON_OBJECT = re.compile(r"\s*(?:\[\s*)?\{")


class SchemaAnswer:
    """Parses one answer; a `workers.text.toolcalls.format.Parser`.

    Args:
        parser: of the model's format.
        names: of the declared functions: an object without a delimiter is a call of one of them,
            or it is content.
    """

    def __init__(self, parser: Parser, names: Container[str]) -> None:
        self._parser = parser
        self._names = names
        self._text = ""
        self._is_call: bool | None = None

    def feed(self, text: str) -> list[Piece]:
        if self._is_call is False:
            return [ContentText(text)]
        return self._decide(text, self._parser.feed(text))

    def finish(self, *, cut: bool) -> list[Piece]:
        if self._is_call is False:
            return []
        pieces = self._decide("", self._parser.finish(cut=cut))
        if self._is_call is None and self._is_bare:
            return [ContentText(self._text)]
        return pieces

    def _decide(self, text: str, pieces: list[Piece]) -> list[Piece]:
        if self._is_call is None:
            self._text += text
            if not pieces:
                return []
            first = pieces[0]
            named = isinstance(first, CallName) and (first.name in self._names or not self._is_bare)
            self._is_call = named
        return pieces if self._is_call else [ContentText(self._text)]

    @property
    def _is_bare(self) -> bool:
        return _JSON_OBJECT.match(self._text) is not None
