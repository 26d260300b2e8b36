"""POST /v1/images/generations and /edits on a server without an image worker.

Owns the checks before the refusal: a malformed body is reported first. Runs in the handler's task.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NoReturn

import msgspec
from aiohttp import web

from gateway.context import CONTEXT
from gateway.dialects.json_body import decode
from gateway.dialects.openai import errors
from gateway.dialects.sampling import invalid
from gateway.http.body import read_body
from gateway.routes.route import Route
from shared.errors import ServiceError


class ImageBody(msgspec.Struct):
    """The fields that are checked."""

    prompt: str
    model: str | None = None
    response_format: Literal["b64_json"] | None = None
    output_format: Literal["png"] | None = None
    # Read only to be refused: this server writes no files for clients.
    url: Any = None
    path: Any = None
    output_path: Any = None
    output_dir: Any = None


_IMAGE: Final = msgspec.json.Decoder(ImageBody)
_OUTPUT_FIELDS: Final = ("url", "path", "output_path", "output_dir")


def routes() -> list[Route]:
    return [
        Route("POST", f"{prefix}/images/{name}", refuse_image, errors)
        for name in ("generations", "edits")
        for prefix in ("/v1", "")
    ]


async def refuse_image(request: web.Request) -> NoReturn:
    fields = decode(_IMAGE, await read_body(request, request.app[CONTEXT].settings.max_body_bytes))
    for name in _OUTPUT_FIELDS:
        if getattr(fields, name) is not None:
            raise invalid(name, "is not supported: images are part of the response")
    raise ServiceError(
        "not_implemented",
        "This server does not generate images: that takes `--image-model`, which this release "
        "has no worker for.",
    )
