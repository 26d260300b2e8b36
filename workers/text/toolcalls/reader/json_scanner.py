r"""Streams JSON values from text that arrives in pieces.

The text is passed on as the model wrote it, with two repairs that make strings valid JSON: a
backslash that does not begin a JSON escape is doubled, and a raw control character is escaped.
Outside strings only brackets are counted and other errors are kept, except that `<`, which no
value can hold and every closing tag begins with, ends the value.
Source: RFC 8259.
"""

from __future__ import annotations

import json
import re
from string import hexdigits

from workers.text.toolcalls.reader.source import Give, Reading, Source

_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
_OUTSIDE = re.compile(r'[^"{}\[\]<]+')
_SCALAR = re.compile(r'[^ \t\r\n,:"{}\[\]<]+')
_HIGH_SURROGATE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}")
_SURROGATE = re.compile("[\ud800-\udfff]")


def read_value(source: Source, give: Give) -> Reading[bool]:
    """Read the value at the next character; return whether it is complete."""
    char = yield from source.peek()
    if char == '"':
        return (yield from _read_quoted(source, give))
    if char and char in "{[":
        return (yield from _read_nested(source, give))
    scalar = yield from source.read_run(_SCALAR)
    give(scalar)
    # A scalar at the end of the text may be cut off.
    return scalar != "" and (yield from source.peek()) != ""


def read_string(source: Source, give: Give) -> Reading[bool]:
    """Read a string from after its opening quote past its closing one; return whether it closes.

    Args:
        give: receives runs of plain characters and whole escapes, repaired.
    """
    while True:
        run = source.take(_PLAIN)
        if run:
            give(run)
        char = yield from source.peek()
        if not char:
            return False
        if char == '"':
            source.skip()
            return True
        if char == "\\":
            source.skip()
            yield from _read_escape(source, give)
        elif char < " ":
            source.skip()
            give(json.dumps(char)[1:-1])


def read_text(source: Source) -> Reading[str | None]:
    """Read a string from its opening quote; return its decoded text, None if it is cut off."""
    source.skip()
    units: list[str] = []
    closed = yield from read_string(source, units.append)
    return decode("".join(units)) if closed else None


class StringDecoder:
    """Decodes the parts that `read_string` passes on."""

    def __init__(self) -> None:
        self._high = ""  # an escape that may be the first half of a pair

    def feed(self, unit: str) -> str:
        """Return the characters that are certain."""
        if _HIGH_SURROGATE.fullmatch(unit):
            held, self._high = self._high, unit
            return decode(held)
        held, self._high = self._high, ""
        return decode(held + unit)

    def finish(self) -> str:
        held, self._high = self._high, ""
        return decode(held)


def decode(text: str) -> str:
    """Return the decoded content of a valid JSON string; half a surrogate pair is U+FFFD."""
    return _SURROGATE.sub("\ufffd", json.loads(f'"{text}"'))


def _read_quoted(source: Source, give: Give) -> Reading[bool]:
    source.skip()
    give('"')
    closed = yield from read_string(source, give)
    if closed:
        give('"')
    return closed


def _read_nested(source: Source, give: Give) -> Reading[bool]:
    depth = 0
    while True:
        run = source.take(_OUTSIDE)
        if run:
            give(run)
        char = yield from source.peek()
        if not char or char == "<":
            return False
        if char == '"':
            if not (yield from _read_quoted(source, give)):
                return False
        elif char in "{}[]":
            source.skip()
            give(char)
            depth += 1 if char in "{[" else -1
            if depth == 0:
                return True


def _read_escape(source: Source, give: Give) -> Reading[None]:
    """Read the part of an escape that follows its backslash."""
    char = yield from source.peek()
    if char and char in '"\\/bfnrt':
        source.skip()
        give("\\" + char)
    elif char == "u":
        source.skip()
        digits = yield from _read_digits(source)
        if len(digits) == 4:
            give(f"\\u{digits}")
        else:
            give("\\\\")
            give("u" + digits)
    else:
        give("\\\\")


def _read_digits(source: Source) -> Reading[str]:
    """Read up to four hexadecimal digits."""
    digits = ""
    while len(digits) < 4:
        char = yield from source.peek()
        if not char or char not in hexdigits:
            break
        source.skip()
        digits += char
    return digits
