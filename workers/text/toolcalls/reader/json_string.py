"""Strings of JSON in pieces: passed on repaired, and decoded.

A backslash that begins no JSON escape is doubled, a raw control character is escaped, and so is a
double quote in a string between single ones. Pure.
Source: RFC 8259.
"""

from __future__ import annotations

import json
import re
from string import hexdigits

from workers.text.toolcalls.reader.json_text import GUARD
from workers.text.toolcalls.reader.source import Give, Reading, Source

_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
_SINGLE = re.compile(r"[^'\"\\\x00-\x1f]+")
_HIGH_SURROGATE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}")
_SURROGATE = re.compile("[\ud800-\udfff]")


def read_quoted(source: Source, give: Give, mark: str) -> Reading[bool]:
    """Read a string with its quotes; return whether it is complete."""
    source.skip()
    give('"')
    closed = yield from read_string(source, give, mark)
    if not closed and source.cut_off:
        return False
    give('"')
    return True


def read_string(source: Source, give: Give, mark: str = '"') -> Reading[bool]:
    """Read a string from after its opening quote past its closing one; return whether it closes.

    Args:
        give: receives runs of plain characters and whole escapes, repaired.
        mark: the quote.
    """
    plain = _PLAIN if mark == '"' else _SINGLE
    while True:
        run = source.take(plain)
        if run:
            give(run)
        char = source.known() or (yield from source.peek())
        if not char:
            return False
        if char == mark:
            source.skip()
            return True
        if char == "\\":
            source.skip()
            yield from _read_escape(source, give)
        elif char == '"':
            source.skip()
            give('\\"')
        elif char < " ":
            source.skip()
            give(json.dumps(char)[1:-1])


def read_text(source: Source) -> Reading[str | None]:
    """Read a string from its opening quote; return its decoded text, None if it is cut off."""
    mark = yield from source.peek()
    source.skip()
    units: list[str] = []
    closed = yield from read_string(source, units.append, mark)
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
    plain = text.replace(GUARD, "") if GUARD in text else text
    return _SURROGATE.sub("\ufffd", json.loads(f'"{plain}"'))


def _read_escape(source: Source, give: Give) -> Reading[None]:
    """Read the part of an escape that follows its backslash."""
    char = yield from source.peek()
    if char and char in '"\\/bfnrt':
        source.skip()
        give("\\" + char)
    elif char == "'":
        source.skip()
        give(char)
    elif char == "u":
        source.skip()
        digits = yield from _read_digits(source)
        if len(digits) == 4:
            give(f"\\u{digits}")
        elif not source.cut_off:
            give("\\\\")
            give("u" + digits)
    elif not source.cut_off:
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
