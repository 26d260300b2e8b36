"""How models quote strings outside JSON: with backslash escapes, or with marks and no escapes.

Owns the pattern and the decoding of a quoted string; values are literal.py's. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "0": "\0",
    "/": "/",
    "\\": "\\",
    '"': '"',
    "'": "'",
    "\n": "",
}


@dataclass(frozen=True)
class Quote:
    """A way to write strings.

    Attributes:
        opening: the text that begins a string.
        pattern: matches a whole string; group 1 is its content.
        decode: returns the string for that content.
    """

    opening: str
    pattern: re.Pattern[str]
    decode: Callable[[str], str]


def unescape(text: str) -> str:
    """Decode backslash escapes of JSON and Python; unknown ones are kept."""
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_unescape_one, text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _unescape_one(match: re.Match[str]) -> str:
    escape = match[1]
    if len(escape) == 1:
        return _ESCAPES.get(escape, match[0])
    code = int(escape[1:], 16)
    return chr(code) if code <= 0x10FFFF else match[0]


def backslash_quote(mark: str) -> Quote:
    """Return quoting by a mark with backslash escapes."""
    pattern = rf"{mark}((?:(?!{mark})[^\\]|\\.)*){mark}"
    return Quote(mark, re.compile(pattern, re.DOTALL), unescape)


def verbatim_quote(mark: str) -> Quote:
    """Return quoting by a mark without escapes."""
    pattern = f"{re.escape(mark)}(.*?){re.escape(mark)}"
    return Quote(mark, re.compile(pattern, re.DOTALL), str)


# Longest first: a triple quote begins with a single one.
PYTHON_QUOTES = tuple(map(backslash_quote, ('"""', "'''", '"', "'")))
