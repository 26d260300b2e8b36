"""How the text of a setting becomes a value where its type alone does not say. Pure."""

from __future__ import annotations

import csv
import re
from typing import Final
from urllib.parse import urlsplit


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


def parse_origins(text: str) -> tuple[str, ...]:
    """Return the web origins of a comma list, each a bare `scheme://host[:port]`.

    Raises:
        ValueError: one of them has more to it than that, and would match nothing.
    """
    origins = tuple(part.strip() for part in text.split(",") if part.strip())
    for origin in origins:
        parts = urlsplit(origin)
        if (
            not parts.hostname
            or "@" in parts.netloc
            or origin != f"{parts.scheme}://{parts.netloc}"
        ):
            raise ValueError(f"{origin!r} is not an origin such as https://example.com:8443")
    return origins


# Sequences that decode together when nobody says how many.
SLOTS: Final = 4


def parse_slots(text: str) -> int:
    """Return a number of slots; -1, which leaves the choice to llama-server, is the default.

    Raises:
        ValueError: not a whole number.
    """
    if re.fullmatch(r"\s*[+-]?\d+\s*", text) is None:
        raise ValueError(f"{text!r} is not a whole number")
    return SLOTS if int(text) == -1 else int(text)


def is_socket(host: str) -> bool:
    """Return whether an address to listen on is the path of a Unix socket."""
    return host.endswith(".sock")


def parse_host(text: str) -> str:
    """Return an address to listen on.

    Raises:
        ValueError: it is the path of a socket, and a relative one: every process has its own
            working folder.
    """
    if is_socket(text) and not text.startswith("/"):
        raise ValueError(f"{text!r} is the path of a socket, which has to begin with /")
    return text


def parse_prefix(text: str) -> str:
    """Return a path prefix, empty for none.

    Raises:
        ValueError: it does not begin with a slash, or ends with one.
    """
    if text and re.fullmatch(r"(/[A-Za-z0-9._~-]+)+", text) is None:
        raise ValueError(f"{text!r} is not a path such as /llm: it begins with / and ends without")
    return text


def parse_whole(text: str) -> tuple[str, ...]:
    r"""Return one text as it is, but for `\n` and its like; "none" is no text at all."""
    if text == "none":
        return ()
    return (text.encode().decode("unicode_escape") if text.isascii() else text,)
