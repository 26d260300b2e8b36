"""Content codings of request bodies.

Owns which are accepted and how they are decoded, within a limit on what comes out. aiohttp's own
decoding is off: it answers broken data in plain text. Pure, but for the check of a request.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

import brotli
from aiohttp import web

from shared.errors import ServiceError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# Window sizes that zlib takes for gzip files, and for data without a header.
_GZIP, _RAW = 31, -15
# The method in the first byte of zlib's own header.
_METHOD_BITS, _DEFLATE = 0x0F, 8


def read_coding(request: web.Request) -> str:
    """Return the content coding of a body; "" for none.

    Raises:
        HTTPUnsupportedMediaType: it is not one of those that can be decoded.
    """
    coding = request.headers.get("Content-Encoding", "").strip().lower()
    if coding in ("", "identity"):
        return ""
    if coding not in _CODINGS:
        refuse_coding()
    return coding


def refuse_coding() -> NoReturn:
    """Raise an error that lists the codings."""
    raise web.HTTPUnsupportedMediaType(headers={"Accept-Encoding": "gzip, deflate, br, zstd"})


def decode(data: bytes, coding: str, limit_bytes: int) -> bytes | None:
    """Return the decoded data; None if there are more bytes than the limit.

    Raises:
        ServiceError: `invalid_request`, the data is broken or incomplete.
    """
    try:
        body, complete = _CODINGS[coding](data, limit_bytes + 1)
    except (zlib.error, brotli.error, zstd.ZstdError) as failure:
        message = f"The body is not valid {coding} data."
        raise ServiceError("invalid_request", message) from failure
    if len(body) > limit_bytes:
        return None
    if not complete:
        raise ServiceError("invalid_request", f"The body's {coding} data is incomplete.")
    return body


def _decode_gzip(data: bytes, most: int) -> tuple[bytes, bool]:
    decompressor = zlib.decompressobj(_GZIP)
    return decompressor.decompress(data, most), decompressor.eof


def _decode_deflate(data: bytes, most: int) -> tuple[bytes, bool]:
    # Some clients leave zlib's header out.
    has_header = data[:1] and data[0] & _METHOD_BITS == _DEFLATE
    decompressor = zlib.decompressobj(zlib.MAX_WBITS if has_header else _RAW)
    return decompressor.decompress(data, most), decompressor.eof


def _decode_brotli(data: bytes, most: int) -> tuple[bytes, bool]:
    decompressor = brotli.Decompressor()
    return decompressor.process(data, output_buffer_limit=most), decompressor.is_finished()


def _decode_zstd(data: bytes, most: int) -> tuple[bytes, bool]:
    decompressor = zstd.ZstdDecompressor()
    return decompressor.decompress(data, most), decompressor.eof


_CODINGS: Final[Mapping[str, Callable[[bytes, int], tuple[bytes, bool]]]] = {
    "gzip": _decode_gzip,
    "x-gzip": _decode_gzip,
    "deflate": _decode_deflate,
    "br": _decode_brotli,
    "zstd": _decode_zstd,
}
