"""Reads values as models write them, JSON or close to it, and returns them as JSON text.

Strict JSON keeps its spelling, including spaces and numbers; Python literals and strings in a
model family's quotes are encoded as JSON. Ignores schemas. Pure; raises only `MalformedError`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from workers.text.toolcalls.reader.json_text import (
    SPACE,
    decode_json,
    kind_of,
    render_array,
    render_object,
    to_json,
)
from workers.text.toolcalls.reader.quote import PYTHON_QUOTES, Quote

T = TypeVar("T")

# Deeper values are refused: reading recurses.
MAX_DEPTH = 100

_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NUMBER = re.compile(
    r"-?(?:0[xXoObB][0-9a-fA-F]+|(?:[0-9][0-9_]*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
)
_WORD = re.compile(r"[^\W\d]\w*")
_WORDS = {
    "null": "null",
    "None": "null",
    "true": "true",
    "True": "true",
    "false": "false",
    "False": "false",
}


class MalformedError(ValueError):
    """The text is not a value."""


@dataclass(frozen=True)
class Literal:
    """A value: its JSON text and its JSON Schema type."""

    text: str
    kind: str


class LiteralReader:
    """Reads loose values from a text, one after the other.

    Args:
        quotes: the ways to write strings, tried in order.
    """

    def __init__(self, text: str, quotes: tuple[Quote, ...] = PYTHON_QUOTES) -> None:
        self.text = text
        self.offset = 0
        self._quotes = quotes
        self._depth = 0

    def value(self) -> Literal:
        """Read one value.

        Raises:
            MalformedError: there is none at the offset.
        """
        self.skip()
        character = self.text[self.offset : self.offset + 1]
        if character == "{":
            return Literal(render_object(dict(self.items("{", "}", self._member))), "object")
        if character == "[":
            return Literal(render_array(self.items("[", "]", self._element)), "array")
        string = self.string()
        if string is not None:
            return Literal(to_json(string), "string")
        return self._number() or self._constant()

    def string(self) -> str | None:
        """Read a quoted string; None, with nothing read, if none begins here."""
        for quote in self._quotes:
            if self.text.startswith(quote.opening, self.offset):
                match = quote.pattern.match(self.text, self.offset)
                if match is None:
                    self.fail()
                self.offset = match.end()
                return quote.decode(match[1])
        return None

    def match(self, pattern: re.Pattern[str]) -> str | None:
        """Read what a pattern matches here; None, with nothing read, if it does not match."""
        found = pattern.match(self.text, self.offset)
        if found is None:
            return None
        self.offset = found.end()
        return found[0]

    def take(self, text: str) -> bool:
        """Skip white space, then read a text if it comes next; return whether it did."""
        self.skip()
        if not self.text.startswith(text, self.offset):
            return False
        self.offset += len(text)
        return True

    def expect(self, text: str) -> None:
        """Skip white space, then read a text.

        Raises:
            MalformedError: another text comes next.
        """
        if not self.take(text):
            self.fail()

    def skip(self) -> None:
        self.match(SPACE)

    def at_end(self) -> bool:
        """Return whether only white space is left."""
        self.skip()
        return self.offset == len(self.text)

    def fail(self) -> NoReturn:
        raise MalformedError(f"no value at character {self.offset}")

    def items(self, opening: str, closing: str, read: Callable[[], T]) -> list[T]:
        """Read items between brackets, separated by commas; a trailing comma is allowed."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self.fail()
        self.expect(opening)
        items: list[T] = []
        while not self.take(closing):
            items.append(read())
            if not self.take(","):
                self.expect(closing)
                break
        self._depth -= 1
        return items

    def key(self) -> str:
        self.skip()
        string = self.string()
        if string is not None:
            return string
        literal = self._number() or self._constant()
        return literal.text

    def _element(self) -> str:
        return self.value().text

    def _member(self) -> tuple[str, str]:
        key = self.key()
        self.expect(":")
        return key, self.value().text

    def _number(self) -> Literal | None:
        text = self.match(_NUMBER)
        if text is None:
            return None
        match = _JSON_NUMBER.fullmatch(text)
        if match:
            return Literal(text, "number" if match[1] or match[2] else "integer")
        literal = _read_number(text)
        if literal is None:
            self.fail()
        return literal

    def _constant(self) -> Literal:
        word = self.match(_WORD)
        if word not in _WORDS:
            self.fail()
        text = _WORDS[word]
        return Literal(text, "null" if text == "null" else "boolean")


def _read_number(text: str) -> Literal | None:
    """Encode a number whose spelling JSON does not allow."""
    # Python does not allow a leading zero either: it is more likely a code or a date.
    if not re.match(r"-?0[0-9]", text):
        with suppress(ValueError):
            return Literal(str(int(text, 0)), "integer")
        with suppress(ValueError):
            number = float(text)
            if math.isfinite(number):
                return Literal(str(number), "number")
    return None


def read_strict_json(text: str) -> Literal | None:
    """Return strict JSON without the white space around it; None if it is not JSON."""
    try:
        value = decode_json(text)
    except (ValueError, RecursionError):
        return None
    return Literal(text.strip(" \t\r\n"), kind_of(value))


def read_literal(text: str) -> Literal | None:
    """Return the value of a whole text, JSON or a loose literal; None if it is neither."""
    literal = read_strict_json(text)
    if literal is not None:
        return literal
    reader = LiteralReader(text)
    try:
        value = reader.value()
    except MalformedError:
        return None
    return value if reader.at_end() else None
