"""How models quote strings where they write no JSON: with backslashes, or with marks of their own.

Owns what stands between two quotes and which string it is; which values a text holds is
literal.py's. Pure.
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
    """How strings are written.

    Attributes:
        opening: what a string begins with.
        pattern: of a whole string, with its content as group 1.
        decode: turns that content into the string.
    """

    opening: str
    pattern: re.Pattern[str]
    decode: Callable[[str], str]


def unescape(text: str) -> str:
    """Resolve backslash escapes of JSON and Python; unknown ones stay as they are."""
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
    """Return quoting by `mark` with backslash escapes inside."""
    pattern = rf"{mark}((?:(?!{mark})[^\\]|\\.)*){mark}"
    return Quote(mark, re.compile(pattern, re.DOTALL), unescape)


def verbatim_quote(mark: str) -> Quote:
    """Return quoting by `mark` with nothing escaped inside."""
    pattern = f"{re.escape(mark)}(.*?){re.escape(mark)}"
    return Quote(mark, re.compile(pattern, re.DOTALL), str)


# Longest first: a triple quote begins with a single one.
PYTHON_QUOTES = tuple(map(backslash_quote, ('"""', "'''", '"', "'")))
