"""How the text of a setting becomes a value where its type alone does not say. Pure."""

from __future__ import annotations

import csv
import re


def parse_bytes(text: str) -> int:
    """Return the bytes of "12G", "512M", "4096".

    Raises:
        ValueError: not a positive size.
    """
    size = parse_bytes_or_none(text)
    if size <= 0:
        raise ValueError(f"{text!r} is not a positive size")
    return size


def parse_bytes_or_none(text: str) -> int:
    """Return the bytes of a size that may be 0.

    Raises:
        ValueError: not a size.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if match is None:
        raise ValueError(f"{text!r} is not a size such as 12G or 512M")
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def parse_keys(text: str) -> tuple[str, ...]:
    """Return the keys of a comma list, read as a row of CSV: nothing is trimmed, `"a,b"` is one.

    Raises:
        ValueError: there is none. An empty list must not open the server to everybody.
    """
    keys = tuple(key for row in csv.reader([text]) for key in row if key)
    if not keys:
        raise ValueError("holds no key")
    return keys
