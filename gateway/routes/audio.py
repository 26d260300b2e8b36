"""POST /v1/audio/speech, /transcriptions and /translations on a server without an audio worker.

Owns what of a body is looked at before such a server says that it can't: a malformed one is told
so first. Runs in the handler's task.
"""

from __future__ import annotations

from typing import Final, NoReturn

import msgspec
from aiohttp import web

from gateway.body import decode, read_body
from gateway.dialects.openai import errors
from gateway.form import read_form
from gateway.routes.route import Route
from shared.errors import ServiceError

_LIMIT_BYTES: Final = 25 * 1024 * 1024


class SpeechBody(msgspec.Struct):
    """What is to be said, and how."""

    input: str
    model: str | None = None
    voice: str | None = None
    response_format: str | None = None
    speed: float | None = None


_SPEECH: Final = msgspec.json.Decoder(SpeechBody)


def routes() -> list[Route]:
    """Return the routes of this module."""
    handlers = {"speech": speak, "transcriptions": transcribe, "translations": transcribe}
    return [
        Route("POST", f"{prefix}/audio/{name}", handler, errors)
        for name, handler in handlers.items()
        for prefix in ("/v1", "")
    ]


async def speak(request: web.Request) -> NoReturn:
    """Refuse to say a text."""
    decode(_SPEECH, await read_body(request, _LIMIT_BYTES))
    raise ServiceError("not_implemented", "audio model kind not loaded: tts")


async def transcribe(request: web.Request) -> NoReturn:
    """Refuse to write down a recording."""
    form = await read_form(request, _LIMIT_BYTES)
    if not form.get("file"):
        raise ServiceError("invalid_request", "file is required", "file")
    raise ServiceError("not_implemented", "audio model kind not loaded: stt")
