"""Forms with files (multipart/form-data), limited while they are read.

Every malformed form is `invalid_request`. The meaning of fields is the dialects'. Runs in the
handler's task.
"""

from __future__ import annotations

from typing import Any, Final, cast

from aiohttp import BodyPartReader, MultipartReader, StreamReader, http_exceptions, web

from gateway.http.body import await_piece, too_large
from gateway.http.decoding import read_coding, refuse_coding
from shared.errors import ServiceError

_MOST_PARTS: Final = 32
# Limit on what is read line by line: boundaries, headers, and text before the first boundary.
# Each line costs event loop time like this many bytes.
_LINES_BYTES: Final = 1024 * 1024
_LINE_COST_BYTES: Final = 128


class _Lines:
    """A body's stream with a limit on what is read line by line."""

    def __init__(self, content: StreamReader) -> None:
        self._content = content
        self._left_bytes = _LINES_BYTES

    async def readline(self, **options: Any) -> bytes:
        line = await self._content.readline(**options)
        self._left_bytes -= len(line) + _LINE_COST_BYTES
        if self._left_bytes < 0:
            raise ValueError("too many lines outside of the parts")
        return line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)


async def read_form(request: web.Request, limit_bytes: int) -> dict[str, list[bytes]]:
    """Return the parts of a form by name, in order.

    Args:
        limit_bytes: of all parts together.

    Raises:
        ServiceError: `payload_too_large`, or `invalid_request` when the form is malformed.
    """
    if read_coding(request):
        # Forms are read part by part, as they arrive.
        refuse_coding()
    if request.content_type != "multipart/form-data":
        raise ServiceError("invalid_request", "The body must be multipart/form-data.")
    if (request.content_length or 0) > limit_bytes:
        raise too_large()
    try:
        reader = MultipartReader(request.headers, cast("StreamReader", _Lines(request.content)))
        return await _read_parts(request, reader, limit_bytes)
    # aiohttp raises these for invalid boundaries, headers and codings.
    except (
        ValueError,
        RuntimeError,
        web.RequestPayloadError,
        http_exceptions.HttpProcessingError,
    ) as failure:
        raise ServiceError("invalid_request", "The form is malformed.") from failure


async def _read_parts(
    request: web.Request, reader: MultipartReader, left_bytes: int
) -> dict[str, list[bytes]]:
    form: dict[str, list[bytes]] = {}
    for _ in range(_MOST_PARTS + 1):
        part = await await_piece(request, reader.next())
        if part is None:
            return form
        if not isinstance(part, BodyPartReader) or not part.name:
            raise ServiceError("invalid_request", "Every part of the form must have a name.")
        data = bytearray()
        while chunk := await await_piece(request, part.read_chunk()):
            data += chunk
            if len(data) > left_bytes:
                raise too_large()
        left_bytes -= len(data)
        form.setdefault(part.name, []).append(bytes(data))
    raise ServiceError("invalid_request", f"The form has more than {_MOST_PARTS} parts.")
