r"""Streams JSON values from text that arrives in pieces, repaired where they are not JSON.

Valid JSON is passed on as the model wrote it. What is not valid is repaired as it comes: a
backslash that begins no JSON escape, raw control characters, single quotes, bare keys and words,
Python's constants, NaN, missing or trailing commas, brackets that do not match. So the text that is
given is always the beginning of a JSON value, and a value that ends is complete: `<`, which no
value can hold and every closing tag begins with, ends it, and so does the end of the model's text.
Source: RFC 8259.
"""

from __future__ import annotations

import re

from workers.text.toolcalls.reader.json_string import read_quoted
from workers.text.toolcalls.reader.json_text import to_json
from workers.text.toolcalls.reader.literal import read_literal
from workers.text.toolcalls.reader.source import Give, Reading, Source

_SPACES = " \t\r\n"
_SPACE = re.compile(f"[{_SPACES}]+")
_SIGNS = ",:}]"
_SCALAR = re.compile(r'[^ \t\r\n,:"{}\[\]<]+')
# The rest of words without quotes.
_WORDS = re.compile(r'[^\r\n,:"{}\[\]<]+')
_NUMBER_OR_WORD = re.compile(r"-?\d+(\.\d*)?([eE][+-]?\d*)?|t|tr|tru|f|fa|fal|fals|n|nu|nul|-")
_CLOSINGS = {"{": "}", "[": "]"}


def read_value(source: Source, give: Give) -> Reading[bool]:
    """Read the value at the next character; return whether it is complete."""
    char = yield from source.peek()
    if char and char in "\"'":
        return (yield from read_quoted(source, give, char))
    if char and char in "{[":
        return (yield from _Nested(source, give).read())
    scalar = yield from source.read_run(_SCALAR)
    at_end = (yield from source.peek()) == ""
    if at_end and source.cut_off:
        # A scalar at the end of the text may be cut off.
        give(scalar)
        return False
    give(_repair_scalar(scalar) if scalar else "")
    return scalar != ""


class _Nested:
    """Reads one object or array, and repairs it.

    `_wanted` is what comes next in valid JSON: a "key", a "colon", the "value" after it or an
    "element", or after these the "end" of a member: a comma or a closing bracket.
    """

    def __init__(self, source: Source, give: Give) -> None:
        self._source = source
        self._give = give
        self._closings: list[str] = []
        self._wanted = "element"
        # A comma that counts only if no closing bracket follows, and the space after it.
        self._held = ""

    def read(self) -> Reading[bool]:
        source = self._source
        while True:
            char = source.known() or (yield from source.peek())
            if char and char in _SPACES:
                self._take_space(source.take(_SPACE))
            elif char and char in _SIGNS:
                source.skip()
                self._take_sign(char)
                if not self._closings:
                    return True
            elif char and char != "<":
                if not (yield from self._read_item(char)):
                    return False
            elif not char and source.cut_off:
                return False
            else:
                while self._closings:
                    self._close()
                return True

    def _take_space(self, space: str) -> None:
        if self._held:
            self._held += space
        else:
            self._give(space)

    def _take_sign(self, char: str) -> None:
        if char == ",":
            self._take_comma()
        elif char == ":":
            self._take_colon()
        else:
            self._close_at(char)

    def _read_item(self, char: str) -> Reading[bool]:
        """Read a key, a value or the opening of one; return whether it is complete."""
        wants_key = self._wanted == "key" or (self._wanted == "end" and self._closings[-1] == "}")
        if char in "{[" and wants_key:
            self._source.skip()
            return True
        self._prepare()
        if char in "{[":
            self._source.skip()
            self._open(char)
            return True
        if char in "\"'":
            complete = yield from read_quoted(self._source, self._give, char)
        else:
            complete = yield from self._read_bare()
        self._wanted = "colon" if self._wanted == "key" else "end"
        return complete

    def _read_bare(self) -> Reading[bool]:
        """Read a key or a value without quotes."""
        text = yield from self._source.read_run(_SCALAR)
        at_end = (yield from self._source.peek()) == ""
        if at_end and self._source.cut_off:
            if self._wanted != "key" and _NUMBER_OR_WORD.fullmatch(text):
                self._give(text)
            return False
        if self._wanted != "key" and read_literal(text) is None and text not in _NO_NUMBERS:
            text += yield from self._source.read_run(_WORDS)
            text = text.rstrip()
        self._give(to_json(text) if self._wanted == "key" else _repair_scalar(text))
        return True

    def _prepare(self) -> None:
        """Give what must stand before a key or a value here."""
        if self._wanted == "colon":
            self._give(":")
            self._wanted = "value"
        elif self._wanted == "end":
            self._give(",")
            self._want_item()
        self._give_held()

    def _take_comma(self) -> None:
        if self._wanted in ("colon", "value"):
            self._complete_member()
        if self._wanted == "end":
            self._held = ","
            self._want_item()

    def _take_colon(self) -> None:
        if self._wanted == "colon":
            self._give(":")
            self._wanted = "value"

    def _open(self, char: str) -> None:
        self._give(char)
        self._closings.append(_CLOSINGS[char])
        self._want_item()

    def _want_item(self) -> None:
        self._wanted = "key" if self._closings[-1] == "}" else "element"

    def _complete_member(self) -> None:
        """Complete a member that lacks its value."""
        if self._wanted in ("colon", "value"):
            self._give(": null" if self._wanted == "colon" else "null")
            self._wanted = "end"

    def _close(self) -> None:
        """Close the innermost bracket."""
        self._complete_member()
        self._give(self._held[1:] + self._closings.pop())
        self._held = ""
        self._wanted = "end"

    def _close_at(self, char: str) -> None:
        """Close brackets up to the one that a closing bracket belongs to; drop one of none."""
        if char in self._closings:
            while self._closings[-1] != char:
                self._close()
            self._close()

    def _give_held(self) -> None:
        if self._held:
            self._give(self._held)
            self._held = ""


_NO_NUMBERS = ("NaN", "Infinity", "-Infinity", "undefined")


def _repair_scalar(text: str) -> str:
    """Return the JSON text of a scalar; words that are no constant become a string."""
    if text in _NO_NUMBERS:
        return "null"
    literal = read_literal(text)
    return to_json(text) if literal is None else literal.text
