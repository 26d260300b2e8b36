"""JSON text of a request body, decoded into a declared shape.

Owns every way in which bytes can fail to be the JSON that was declared: each one is
`invalid_request` with the JSON path of the fault. Reads nothing from the network (http/body.py
does). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, TypeVar

import msgspec

from shared.errors import ServiceError

T = TypeVar("T")

# msgspec ends its messages with the path: "… - at `$.messages[0].role`".
_FAULT: Final = re.compile(
    r"^(?P<what>.*?)(?: - at (?:`key` in )?`\$\.?(?P<path>.*)`)?$", re.DOTALL
)
_MISSING: Final = re.compile(r"Object missing required field `(?P<name>.*)`")
_MESSAGE_CHARS: Final = 300
# Larger bodies are taken as they are: mending 1 MB can take 0.1 s, in which nothing else runs.
_MOST_MENDED_BYTES: Final = 4 << 20
# An escape of a surrogate, and one without the other half of its pair beside it.
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_HALF: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
# A string, or a number without a fraction that is written with one, as in 4.0.
_INTEGRAL: Final = re.compile(
    rb'"(?:[^"\\]|\\.)*"|(?<!\d)(-?\d{1,20})\.0{1,20}(?![\deE])', re.DOTALL
)
# Template engines and JSON readers recurse over values: deep ones exhaust their stacks.
_MAX_DEPTH: Final = 64


def decode(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw, where: str = "") -> T:
    """Return the value JSON text stands for.

    Args:
        where: JSON path of `data` in the body.

    Raises:
        ServiceError: `invalid_request`, with the path of what is wrong in `param`.
    """
    try:
        # Fields that are skipped or kept as text are not checked by the decoder.
        str(data, "utf-8")
        return _decode(decoder, _mend(bytes(data)))
    except msgspec.ValidationError as failure:
        raise _misfit(str(failure), where) from None
    except msgspec.DecodeError as failure:
        raise ServiceError("invalid_request", f"The body is not valid JSON: {failure}.") from None
    except UnicodeDecodeError:
        raise ServiceError("invalid_request", "The body is not valid UTF-8.") from None
    except RecursionError:
        raise ServiceError("invalid_request", "The body is nested too deeply.") from None


def _decode(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """Decode; a number such as 4.0 is an integer where one is expected."""
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as failure:
        expects_int = "Expected `int" in str(failure) and "got `float`" in str(failure)
        if not expects_int or len(data) > _MOST_MENDED_BYTES:
            raise
        return decoder.decode(_INTEGRAL.sub(lambda match: match[1] or match[0], data))


def _mend(data: bytes) -> bytes:
    """Return JSON text whose halves of surrogate pairs are U+FFFD.

    Clients that cut text between two UTF-16 units send them.
    """
    if len(data) > _MOST_MENDED_BYTES or _SURROGATE.search(data) is None or b"\0" in data:
        return data
    # No JSON text has a NUL, so it may stand for an escaped backslash, which begins no escape.
    marked = data.replace(b"\\\\", b"\0\0")
    return _HALF.sub(rb"\\ufffd", marked).replace(b"\0\0", b"\\\\")


def compact(raw: msgspec.Raw) -> bytes:
    """Return JSON text without white space, in the order of its keys: it fits on one line."""
    return msgspec.json.format(bytes(raw), indent=-1)


def unknown_keys(data: bytes, known: Iterable[str]) -> list[str]:
    """Return the top-level keys of a JSON object that are not among `known`."""
    return sorted(set(msgspec.json.decode(data, type=dict[str, msgspec.Raw])) - set(known))


def depth(value: Any, limit: int) -> int:
    """Return how deeply objects and arrays are nested, the root being 0; stops past `limit`."""
    level, deepest = [value], 0
    while level := [inner for outer in level for inner in _containers(outer)]:
        deepest += 1
        if deepest > limit:
            break
    return deepest


def check_depth(value: Any, path: str) -> None:
    """Refuse a value that is nested deeper than `_MAX_DEPTH`.

    Raises:
        ServiceError: `invalid_request`.
    """
    if isinstance(value, dict | list) and depth(value, _MAX_DEPTH) > _MAX_DEPTH:
        raise ServiceError("invalid_request", f"{path} is nested too deeply", path)


def _containers(value: Any) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value
    return [item for item in inner if isinstance(item, dict | list)]


def _misfit(message: str, where: str) -> ServiceError:
    match = _FAULT.match(message)
    what, path = (match["what"], match["path"] or "") if match else (message, "")
    if missing := _MISSING.match(what):
        path = f"{path}.{missing['name']}" if path else missing["name"]
        what = "is required"
    path = f"{where}.{path}" if where and path and path[0] != "[" else where + path
    text = f"{path}: {what}" if path else what
    return ServiceError("invalid_request", text[:_MESSAGE_CHARS], path[:_MESSAGE_CHARS] or None)
