"""Handlers of the routes that generate text, for all dialects.

Owns the steps from body to response: read, parse, resolve the worker, check, run, render. They are
the same for every dialect. Runs in the handler's task.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Final

from aiohttp import web

from gateway.context import CONTEXT, Context
from gateway.dialects.anthropic import messages
from gateway.dialects.base import MediaRef, P, Parsed, Renderer, Stamp, TextDialect
from gateway.dialects.json_body import unknown_keys
from gateway.dialects.llama import infill, native
from gateway.dialects.openai import chat
from gateway.fleet.text_worker import TextWorker
from gateway.generation.fold import Item, fold
from gateway.http.auth import PRINCIPAL
from gateway.http.body import read_body
from gateway.http.offload import offload
from gateway.http.sse import EventStream
from gateway.routes.route import Route
from shared.errors import ServiceError, to_message
from shared.pb import common_pb2 as common
from shared.pb import text_pb2 as pb
from shared.pb import worker_pb2

log = logging.getLogger(__name__)

_PRIORITIES: Final = {"high": common.PRIORITY_HIGH, "low": common.PRIORITY_LOW}
_CLASHING: Final = {common.Media.KIND_AUDIO, common.Media.KIND_VIDEO}
_KINDS: Final = {
    common.Media.KIND_IMAGE: "image",
    common.Media.KIND_AUDIO: "audio",
    common.Media.KIND_VIDEO: "video",
}


def routes() -> list[Route]:
    return [
        *_generation_routes(chat, "/v1/chat/completions", "/chat/completions"),
        *_generation_routes(messages, "/v1/messages", "/messages"),
        *_generation_routes(native, "/completion", "/completions"),
        Route("POST", "/infill", fill, infill),
    ]


def _generation_routes(dialect: TextDialect[P], *paths: str) -> list[Route]:
    async def complete(request: web.Request) -> web.StreamResponse:
        return await _complete(request, dialect, await read(request))

    return [Route("POST", path, complete, dialect) for path in paths]


async def fill(request: web.Request) -> web.StreamResponse:
    """Run an infill; a model that can't is reported before errors in the body."""
    body = await read(request)
    worker = request.app[CONTEXT].registry.resolve(infill.model_of(body))
    infill.require_markers(worker.require_ready())
    return await _complete(request, infill, body)


async def _complete(
    request: web.Request, dialect: TextDialect[P], body: bytes
) -> web.StreamResponse:
    parsed, worker, card = await _parse_request(request, dialect, body)
    return await respond(request, dialect, parsed, worker, card)


async def respond(
    request: web.Request,
    dialect: TextDialect[P],
    parsed: P,
    worker: TextWorker,
    card: worker_pb2.ModelCard,
) -> web.StreamResponse:
    """Run a parsed request and respond."""
    context = request.app[CONTEXT]
    items = context.generator.run(parsed.request, worker, counted=parsed.counted)
    async with contextlib.aclosing(items):
        if parsed.stream:
            renderer = dialect.renderer(parsed, card.name)
            data = _render(items, renderer)
            return await send_stream(request, renderer, data, ping_interval(context, parsed))
        completion = await fold(items)
    answer = dialect.body(parsed, card.name, completion)
    return web.Response(body=answer, content_type="application/json")


async def receive(
    request: web.Request, dialect: TextDialect[P]
) -> tuple[P, TextWorker, worker_pb2.ModelCard]:
    """Return the parsed body, the worker it names, and that worker's card.

    Raises:
        ServiceError: the dialect or the model does not support the request, or the worker is not
            ready.
    """
    return await _parse_request(request, dialect, await read(request))


async def read(request: web.Request) -> bytes:
    return await read_body(request, request.app[CONTEXT].settings.max_body_bytes)


async def _parse_request(
    request: web.Request, dialect: TextDialect[P], body: bytes
) -> tuple[P, TextWorker, worker_pb2.ModelCard]:
    context = request.app[CONTEXT]
    stamp = Stamp.create(dialect.ID_PREFIX, context.policy, request[PRINCIPAL])
    parsed = await offload(len(body), dialect.parse, body, stamp)
    if log.isEnabledFor(logging.DEBUG) and (names := unknown_keys(body, dialect.KNOWN)):
        log.debug("%s: ignored fields %s", parsed.request.request_id, ", ".join(names))
    parsed.request.priority = parse_priority(request.headers.get("X-Priority", ""))
    worker = context.registry.resolve(parsed.model)
    card = worker.require_ready()
    refuse_media(parsed.media, card)
    return parsed, worker, card


def ping_interval(context: Context, parsed: Parsed) -> float | None:
    """Return the interval of keep-alives in a silent stream; None for never."""
    interval_s = parsed.ping_interval_s
    if interval_s is None:
        return context.ping_s
    return None if interval_s < 0 else float(interval_s)


async def _render(
    items: AsyncIterator[Sequence[Item]], renderer: Renderer
) -> AsyncGenerator[bytes]:
    async for batch in items:
        yield b"".join(map(renderer.feed, batch))


async def send_stream(
    request: web.Request, renderer: Renderer, data: AsyncGenerator[bytes], ping_s: float | None
) -> web.StreamResponse:
    """Respond with a stream.

    Args:
        renderer: of what is not in `data`: failures and keep-alives.
        ping_s: interval of keep-alives in a silent stream; None for never.
    """
    start_timeout_s = request.app[CONTEXT].start_timeout_s

    def render_failure(failure: ServiceError) -> bytes:
        return renderer.feed(pb.Event(failed=pb.Failed(error=to_message(failure))))

    async with (
        contextlib.aclosing(data),
        EventStream(request, render_failure, ping_s, start_timeout_s, renderer.ping) as stream,
    ):
        async for chunk in data:
            if chunk:
                await stream.send(chunk)
        return await stream.finish()


def parse_priority(header: str) -> common.Priority.ValueType:
    """Return the priority of an X-Priority header; unknown values are normal."""
    return _PRIORITIES.get(header.strip().lower(), common.PRIORITY_NORMAL)


def refuse_media(media: Sequence[MediaRef], card: worker_pb2.ModelCard) -> None:
    """Refuse media that the model has no tower for, before anything is fetched.

    Raises:
        ServiceError: `not_supported`, or `invalid_request` for video together with audio.
    """
    if {reference.kind for reference in media} >= _CLASHING and not {*card.modalities} >= _CLASHING:
        raise ServiceError(
            "invalid_request", "Combined video and audio inputs are not supported", "messages"
        )
    for reference in media:
        if reference.kind not in card.modalities:
            kind = _KINDS[reference.kind]
            raise ServiceError(
                "not_supported",
                f"{kind} input is not supported - hint: the loaded checkpoint '{card.name}' has "
                f"no {kind} tower; serve a model that takes {kind} input",
                reference.path,
            )
