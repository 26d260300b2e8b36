"""POST /v1/audio/transcriptions and /translations.

Owns the steps from form to response: read, parse, find the worker, call, render. A malformed form
is reported before a missing model; an invalid field before it for translations and after it for
transcriptions, as in the reference. Runs in the handler's task.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from aiohttp import web

from gateway.context import CONTEXT, Context
from gateway.dialects import transcription
from gateway.dialects.openai import errors
from gateway.fleet.unary_worker import UnaryWorker
from gateway.fleet.worker import Worker
from gateway.http.form import read_form
from gateway.http.sse import EventStream
from gateway.routes.route import Route
from gateway.routes.text import parse_priority
from shared.errors import ServiceError
from shared.kind import KINDS
from shared.pb.audio_pb2_grpc import AudioStub

_LIMIT_BYTES: Final = 25 * 1024 * 1024


def routes() -> list[Route]:
    handlers = {"transcriptions": transcribe, "translations": translate}
    return [
        Route("POST", f"{prefix}/audio/{name}", handler, errors)
        for name, handler in handlers.items()
        for prefix in ("/v1", "")
    ]


async def transcribe(request: web.Request) -> web.StreamResponse:
    form = await read_form(request, _LIMIT_BYTES)
    worker = _find(request, transcription.read_model(form))
    return await _transcribe(request, worker, transcription.parse(form, translate=False))


async def translate(request: web.Request) -> web.StreamResponse:
    parsed = transcription.parse(await read_form(request, _LIMIT_BYTES), translate=True)
    return await _transcribe(request, _find(request, parsed.model), parsed)


def refuse(context: Context, capability: str) -> ServiceError:
    """Return the error of a server none of whose audio workers has a capability."""
    message = KINDS["audio"].unserved(capability)
    cards = [worker.card for worker in context.registry.of_kind("audio")]
    reasons = [card.unavailable.get(capability) for card in cards if card is not None]
    return ServiceError("not_implemented", ". ".join(filter(None, (message, *reasons))))


def _find(request: web.Request, model: str | None) -> UnaryWorker:
    context = request.app[CONTEXT]
    worker = context.registry.choose("audio", model, _transcribes)
    if worker is None:
        raise refuse(context, "transcription")
    return worker


async def _transcribe(
    request: web.Request, worker: UnaryWorker, parsed: transcription.ParsedTranscription
) -> web.StreamResponse:
    context = request.app[CONTEXT]
    parsed.request.priority = parse_priority(request.headers.get("X-Priority", ""))
    if parsed.stream:
        return await _send_stream(request, context, worker, parsed)
    transcript = await worker.call(
        lambda channel: AudioStub(channel).Transcribe, parsed.request, context.settings.timeout_s
    )
    context.metrics.note_inputs(0)
    body, content_type = transcription.render(parsed, transcript)
    charset = None if content_type == "application/json" else "utf-8"
    return web.Response(body=body, content_type=content_type, charset=charset)


async def _send_stream(
    request: web.Request,
    context: Context,
    worker: UnaryWorker,
    parsed: transcription.ParsedTranscription,
) -> web.StreamResponse:
    data = _render(context, worker, parsed)
    async with (
        aclosing(data),
        EventStream(
            request, transcription.render_failure, context.ping_s, context.start_timeout_s
        ) as stream,
    ):
        async for event in data:
            await stream.send(event)
        return await stream.finish()


async def _render(
    context: Context, worker: UnaryWorker, parsed: transcription.ParsedTranscription
) -> AsyncGenerator[bytes]:
    """Yield the events of a stream: the new text of every window, the whole text at the end."""
    pieces = worker.stream(
        lambda channel: AudioStub(channel).StreamTranscript,
        parsed.request,
        context.settings.timeout_s,
    )
    received = sent = ""
    async with aclosing(pieces):
        async for piece in pieces:
            received += "".join(segment.text for segment in piece.segments)
            # Like the whole text, the sum of the deltas has no surrounding white space.
            text = received.strip()
            if len(text) > len(sent):
                yield transcription.render_delta(text[len(sent) :])
                sent = text
    context.metrics.note_inputs(0)
    yield transcription.render_done(sent)


def _transcribes(worker: Worker) -> bool:
    """Return whether a worker transcribes, or is not loaded yet and may."""
    return worker.card is None or worker.card.audio.transcribes
