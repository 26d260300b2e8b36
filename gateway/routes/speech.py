"""POST /v1/audio/speech and GET /v1/audio/voices.

Owns the steps from text to audio: read, parse, find the worker, call, send audio as it arrives. A
malformed body is reported before a missing model, an invalid field after it. Runs in the handler's
task.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from aiohttp import web

from gateway.context import CONTEXT, Context
from gateway.dialects import speech
from gateway.dialects.openai import errors
from gateway.fleet.unary_worker import UnaryWorker
from gateway.fleet.worker import Worker
from gateway.http.answer import answer_json
from gateway.http.body import read_body
from gateway.http.byte_stream import ByteStream
from gateway.http.sse import EventStream
from gateway.routes.audio import refuse
from gateway.routes.route import Route
from gateway.routes.text import parse_priority
from shared.pb.audio_pb2_grpc import AudioStub

_LIMIT_BYTES: Final = 25 * 1024 * 1024


def routes() -> list[Route]:
    prefixes = ("/v1", "")
    return [
        *(Route("POST", f"{prefix}/audio/speech", synthesize, errors) for prefix in prefixes),
        *(Route("GET", f"{prefix}/audio/voices", list_voices, errors) for prefix in prefixes),
    ]


async def synthesize(request: web.Request) -> web.StreamResponse:
    context = request.app[CONTEXT]
    body = speech.parse(await read_body(request, _LIMIT_BYTES))
    worker = _find(context, body.model)
    parsed = speech.build(body, context.settings.speech_format)
    parsed.request.priority = parse_priority(request.headers.get("X-Priority", ""))
    audio = _call(context, worker, parsed)
    async with aclosing(audio):
        if parsed.events:
            return await _send_events(request, context, audio)
        stream = ByteStream(request, parsed.headers)
        async for data in audio:
            await stream.send(data)
        return await stream.finish()


async def list_voices(request: web.Request) -> web.Response:
    """Respond with the voices of a model, the default first."""
    worker = _find(request.app[CONTEXT], request.query.get("model"))
    return answer_json(speech.render_voices(worker.require_ready().audio.voices))


async def _call(
    context: Context, worker: UnaryWorker, parsed: speech.ParsedSpeech
) -> AsyncGenerator[bytes]:
    """Yield the bytes of a file as they are produced."""
    pieces = worker.stream(
        lambda channel: AudioStub(channel).Speak, parsed.request, context.settings.timeout_s
    )
    async with aclosing(pieces):
        async for piece in pieces:
            yield piece.data
    context.metrics.note_inputs(0)


async def _send_events(
    request: web.Request, context: Context, audio: AsyncGenerator[bytes]
) -> web.StreamResponse:
    async with EventStream(
        request, speech.render_failure, context.ping_s, context.start_timeout_s
    ) as stream:
        async for data in audio:
            await stream.send(speech.render_delta(data))
        await stream.send(speech.render_done())
        return await stream.finish()


def _find(context: Context, model: str | None) -> UnaryWorker:
    worker = context.registry.choose("audio", model, _synthesizes)
    if worker is None:
        raise refuse(context, "speech")
    return worker


def _synthesizes(worker: Worker) -> bool:
    """Return whether a worker synthesizes speech, or is not loaded yet and may."""
    return worker.card is None or worker.card.audio.speaks
