"""Types of settings, with how their text is read: sizes, keys, hosts, origins. Pure."""

from __future__ import annotations

import csv
import re
from typing import Annotated, Final

from msgspec import Meta

from shared.declaration import Form

# Sequences that decode together by default.
SLOTS: Final = 4


def parse_bytes(text: str) -> int:
    """Return the bytes of "12G", "512M", "4096".

    Raises:
        ValueError: not a size.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if match is None:
        raise ValueError(text)
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def parse_budget(text: str) -> int:
    """Return the bytes of a size above 0.

    Raises:
        ValueError: it is 0, or not a size.
    """
    if not (size := parse_bytes(text)):
        raise ValueError(text)
    return size


def parse_keys(text: str) -> tuple[str, ...]:
    """Return the keys of a comma list, read as a row of CSV: nothing is trimmed, `"a,b"` is one.

    Raises:
        ValueError: there is none. An empty list must not open the server to everybody.
    """
    keys = tuple(key for row in csv.reader([text]) for key in row if key)
    if not keys:
        raise ValueError(text)
    return keys


def parse_whole(text: str) -> tuple[str, ...]:
    r"""Return one text unchanged except for escapes such as `\n`; "none" gives no text."""
    if text == "none":
        return ()
    return (text.encode().decode("unicode_escape") if text.isascii() else text,)


Count = Annotated[int, Meta(ge=0)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
# The wire carries milliseconds in 32 bits.
Timeout = Annotated[int, Meta(ge=1, le=4_000_000)]
Size = Annotated[int, Form("a size such as 12G or 512M", parse_bytes)]
# The reference refuses 0 as text; the fleet file writes the default as the number.
Budget = Annotated[int, Form("a positive size such as 12G", parse_budget)]
Texts = Annotated[tuple[str, ...], Form("a text", parse_whole)]
Keys = Annotated[
    tuple[Annotated[str, Meta(min_length=1)], ...],
    Form("a key or a comma list of keys", parse_keys),
]
# A socket's path is absolute, as every process has its own working folder.
Host = Annotated[
    str,
    Meta(pattern=r"^/|^(?!.*\.sock\Z)"),
    Form("an address, or the path of a socket that begins with /"),
]
Prefix = Annotated[
    str,
    Meta(pattern=r"^(/[A-Za-z0-9._~-]+)*\Z"),
    Form("a path such as /llm: it begins with / and does not end with it"),
]
# More than scheme://host[:port] never equals what a browser sends.
_ORIGIN: Final = r"^[a-z][a-z0-9+.-]*://([^\s/?#@:\[\]]+|\[[0-9a-fA-F:.]+\])(:\d*)?\Z"
Origins = Annotated[
    tuple[Annotated[str, Meta(pattern=_ORIGIN)], ...],
    Form("an origin such as https://example.com:8443, or a comma list of them"),
]
