"""Values as models write them: JSON, and what comes close to it.

Reads a value and gives it back as JSON text. Strict JSON stays as it is, spaces and spelling of
numbers included; Python literals and text with a model family's own quotes are written anew.
Knows nothing of schemas. Pure; never raises anything but `MalformedError`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from workers.text.toolcalls.format import to_json
from workers.text.toolcalls.reader.quote import PYTHON_QUOTES, Quote

T = TypeVar("T")

# Deeper values are refused: reading recurses.
MAX_DEPTH = 100

SPACE = re.compile(r"[ \t\r\n]*")
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
_KINDS = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


class MalformedError(ValueError):
    """The text is no value."""


def _refuse(constant: str) -> NoReturn:
    raise MalformedError(f"{constant} is not JSON")


# Numbers are not computed: only their type matters, and they may have any length.
_DECODER = json.JSONDecoder(
    parse_int=lambda _: 0, parse_float=lambda _: 0.0, parse_constant=_refuse
)


@dataclass(frozen=True)
class Literal:
    """A value: its JSON text and its JSON Schema type."""

    text: str
    kind: str


class Reader:
    """Reads loose values out of a text, one after the other.

    Args:
        quotes: the ways strings are written, tried in order.
    """

    def __init__(self, text: str, quotes: tuple[Quote, ...] = PYTHON_QUOTES) -> None:
        self.text = text
        self.place = 0
        self._quotes = quotes
        self._depth = 0

    def value(self) -> Literal:
        """Read one value.

        Raises:
            MalformedError: there is none here.
        """
        self.skip()
        character = self.text[self.place : self.place + 1]
        if character == "{":
            return Literal(object_of(dict(self.items("{", "}", self._member))), "object")
        if character == "[":
            return Literal(array_of(self.items("[", "]", self._element)), "array")
        string = self.string()
        if string is not None:
            return Literal(to_json(string), "string")
        return self._number() or self._constant()

    def string(self) -> str | None:
        """Read a quoted string; None, with nothing taken, when there is none here."""
        for quote in self._quotes:
            if self.text.startswith(quote.opening, self.place):
                match = quote.pattern.match(self.text, self.place)
                if match is None:
                    self.fail()
                self.place = match.end()
                return quote.decode(match[1])
        return None

    def match(self, pattern: re.Pattern[str]) -> str | None:
        """Take what `pattern` matches here; None, with nothing taken, when it does not."""
        found = pattern.match(self.text, self.place)
        if found is None:
            return None
        self.place = found.end()
        return found[0]

    def take(self, text: str) -> bool:
        """Take `text`, white space before it aside, if it is what comes next."""
        self.skip()
        if not self.text.startswith(text, self.place):
            return False
        self.place += len(text)
        return True

    def expect(self, text: str) -> None:
        """Take `text`, which must come next."""
        if not self.take(text):
            self.fail()

    def skip(self) -> None:
        """Take white space."""
        self.match(SPACE)

    def at_end(self) -> bool:
        """Return whether nothing but white space is left."""
        self.skip()
        return self.place == len(self.text)

    def fail(self) -> NoReturn:
        """Refuse the text."""
        raise MalformedError(f"no value at character {self.place}")

    def items(self, opening: str, closing: str, read: Callable[[], T]) -> list[T]:
        """Read items between brackets, separated by commas; one may follow the last."""
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
        """Read an object's key."""
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
    """Write a number anew that is spelt as JSON does not allow."""
    # With a leading zero it is no number of Python's either: more likely a code or a date.
    if not re.match(r"-?0[0-9]", text):
        with suppress(ValueError):
            return Literal(str(int(text, 0)), "integer")
        with suppress(ValueError):
            number = float(text)
            if math.isfinite(number):
                return Literal(str(number), "number")
    return None


def read_json(text: str) -> Literal | None:
    """Return strict JSON as it stands, white space around it aside; None if it is none."""
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    return Literal(text.strip(" \t\r\n"), kind_of(value))


def kind_of(value: Any) -> str:
    """Return the JSON Schema type of a parsed value."""
    return _KINDS.get(type(value), "object")


def read_literal(text: str) -> Literal | None:
    """Return a whole text's value, JSON or a loose literal; None if it is none."""
    literal = read_json(text)
    if literal is not None:
        return literal
    reader = Reader(text)
    try:
        value = reader.value()
    except MalformedError:
        return None
    return value if reader.at_end() else None


def read_object(text: str) -> str | None:
    """Return the JSON text of an object: the text's own, or mended; None if it is no object."""
    literal = read_literal(text)
    return literal.text if literal is not None and literal.kind == "object" else None


def object_of(members: Mapping[str, str]) -> str:
    """Return the JSON object of members given by name as JSON text."""
    return "{" + ", ".join(f"{to_json(name)}: {value}" for name, value in members.items()) + "}"


def array_of(elements: Iterable[str]) -> str:
    """Return the JSON array of elements given as JSON text."""
    return "[" + ", ".join(elements) + "]"


def split_object(text: str) -> dict[str, str]:
    """Return the texts of a strict JSON object's members; of equal keys the last counts."""
    members: dict[str, str] = {}
    place = _skip(text, 1)
    while text[place] != "}":
        key, place = _DECODER.raw_decode(text, place)
        start = _skip(text, _skip(text, place) + 1)
        _, place = _DECODER.raw_decode(text, start)
        members[key] = text[start:place]
        place = _skip_comma(text, place)
    return members


def split_array(text: str) -> list[str]:
    """Return the texts of a strict JSON array's elements."""
    elements: list[str] = []
    place = _skip(text, 1)
    while text[place] != "]":
        start = place
        _, place = _DECODER.raw_decode(text, start)
        elements.append(text[start:place])
        place = _skip_comma(text, place)
    return elements


def _skip(text: str, place: int) -> int:
    match = SPACE.match(text, place)
    return match.end() if match else place


def _skip_comma(text: str, place: int) -> int:
    place = _skip(text, place)
    return _skip(text, place + 1) if text[place] == "," else place
