"""Handlers of the Responses API: create, show, cancel, delete, count, compact.

Owns the steps from body to response and the list of responses that are streaming. The course of a
response is turn.py's, its form the dialect's, its storage the archive's. Runs in the handler's
task.
"""

from __future__ import annotations

import logging
import secrets
from dataclasses import replace
from typing import Final, NoReturn

import msgspec
from aiohttp import web

from gateway.context import CONTEXT
from gateway.dialects.base import MediaRef, Stamp
from gateway.dialects.conversation import check_piece_count
from gateway.dialects.json_body import decode, unknown_keys
from gateway.dialects.openai.responses import answer, compaction, dialect, reference, wire
from gateway.dialects.openai.responses.request import (
    ParsedResponse,
    check_count,
    conversation_name,
    input_items,
    make,
    make_prompt,
    read,
)
from gateway.dialects.unserved import refuse_unserved
from gateway.http.answer import Handler, answer_json
from gateway.http.auth import PRINCIPAL
from gateway.http.body import read_body
from gateway.http.offload import offload
from gateway.responses.compaction import CompactionJob, Compactor, default_keep_tokens
from gateway.responses.context import RESPONSE_CONTEXT
from gateway.responses.turn import ResponseTurn, TurnContext
from gateway.routes.route import Method, Route
from gateway.routes.text import parse_priority, refuse_media, send_stream
from gateway.state.archive import ResponseArchive
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb
from shared.pb import worker_pb2

log = logging.getLogger(__name__)

_MOST_SUMMARY_TOKENS: Final = 16_384
# The largest integer that every JSON reader preserves.
_LARGEST: Final = 2**53
_COMPACT_BODY: Final = msgspec.json.Decoder(wire.CompactBody)
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def routes() -> list[Route]:
    table: list[tuple[Method, str, Handler]] = [
        ("POST", "/responses", create),
        ("GET", "/responses", refuse_upgrade),
        ("POST", "/responses/compact", compact),
        ("POST", "/responses/input_tokens", count),
        ("GET", "/responses/{id}", show),
        ("DELETE", "/responses/{id}", delete),
        ("POST", "/responses/{id}/cancel", cancel),
    ]
    return [
        Route(method, prefix + path, handler, dialect)
        for prefix in ("/v1", "")
        for method, path, handler in table
    ]


async def create(request: web.Request) -> web.StreamResponse:
    parsed, stamp, turn_context = await _receive(request)
    turn = ResponseTurn(turn_context, parsed, stamp)
    await turn.prepare()
    if not parsed.stream:
        return answer_json(await turn.answer())
    turns = request.app[RESPONSE_CONTEXT].turns
    turns[stamp.request_id] = turn
    try:
        ping_s = request.app[CONTEXT].ping_s
        return await send_stream(request, turn.stream, turn.events(), ping_s)
    finally:
        del turns[stamp.request_id]


async def refuse_upgrade(request: web.Request) -> NoReturn:
    """Tell clients that ask for a WebSocket to use HTTP, which they then do at once."""
    if "Upgrade" in request.headers:
        raise web.HTTPUpgradeRequired(headers={"Upgrade": "HTTP/1.1"})
    raise web.HTTPMethodNotAllowed(request.method, ["POST"])


async def count(request: web.Request) -> web.Response:
    """Respond with the token count of a prompt."""
    parsed, _, turn_context = await _receive(request)
    rendered = await turn_context.worker.client().render(parsed.request)
    return answer_json({"object": "response.input_tokens", "input_tokens": rendered.prompt_tokens})


async def show(request: web.Request) -> web.Response:
    if request.query.get("stream", "false") != "false":
        raise ServiceError(
            "invalid_request", "stream is not supported for stored responses", "stream"
        )
    response_id = request.match_info["id"]
    record = await request.app[RESPONSE_CONTEXT].archive.find(response_id)
    if record is None:
        raise _not_found(response_id)
    return web.Response(body=bytes(record.response), content_type="application/json")


async def delete(request: web.Request) -> web.Response:
    """Delete a stored response. Idempotent."""
    response_id = request.match_info["id"]
    deleted = await request.app[RESPONSE_CONTEXT].archive.delete(response_id)
    return answer_json({"id": response_id, "object": "response.deleted", "deleted": deleted})


async def cancel(request: web.Request) -> web.Response:
    """Cancel a streaming response, or mark a stored one as cancelled."""
    stored = request.app[RESPONSE_CONTEXT]
    response_id = request.match_info["id"]
    if (turn := stored.turns.get(response_id)) is not None:
        return answer_json(await turn.cancel())
    record = await stored.archive.find(response_id)
    if record is None:
        raise _not_found(response_id)
    fields = _FIELDS.decode(record.response) | {"status": msgspec.Raw(b'"cancelled"')}
    response = msgspec.json.encode(fields)
    await stored.archive.replace(response_id, response, record.items)
    return web.Response(body=response, content_type="application/json")


async def compact(request: web.Request) -> web.Response:
    """Respond with a history in which a summary replaces all but the newest turns."""
    context = request.app[CONTEXT]
    body = await read_body(request, context.settings.max_body_bytes)
    fields = await offload(len(body), _read_compact, body)
    stamp = _make_stamp(request)
    items, media = input_items(fields.input), list[MediaRef]()
    await offload(len(body), make_prompt, fields, items, stamp, media)
    worker = context.registry.resolve(fields.model)
    card = worker.require_ready()
    refuse_media(media, card)
    compactor = Compactor(context.generator, worker, card)
    job = _make_job(request, fields, stamp, card)
    compacted = await compactor.compact(job, await compactor.count(job.rebuild(items)))
    kept = compaction.show_items([*compacted.pinned, *compacted.kept], stamp.request_id)
    return answer_json(
        {
            "id": stamp.request_id,
            "object": "response.compaction",
            "created_at": stamp.unix_s,
            "model": card.name,
            "output": [*kept, compacted.item],
            "usage": answer.usage(compacted.usage),
        }
    )


def _read_compact(body: bytes) -> wire.CompactBody:
    fields = decode(_COMPACT_BODY, body)
    refuse_unserved(fields, wire.COMPACT_REFUSED)
    check_piece_count(len(input_items(fields.input)), "input")
    check_count("keep_tokens", fields.keep_tokens, 1, _LARGEST)
    check_count("max_output_tokens", fields.max_output_tokens, 1, _MOST_SUMMARY_TOKENS)
    return fields


def _make_job(
    request: web.Request, fields: wire.CompactBody, stamp: Stamp, card: worker_pb2.ModelCard
) -> CompactionJob:
    def rebuild(items: list[msgspec.Raw]) -> pb.GenerateRequest:
        chat = make_prompt(fields, items, stamp, [])
        return pb.GenerateRequest(request_id=stamp.request_id, chat=chat)

    return CompactionJob(
        fields=fields,
        items=input_items(fields.input),
        stamp=stamp,
        rebuild=rebuild,
        keep_tokens=fields.keep_tokens or default_keep_tokens(card),
        max_tokens=fields.max_output_tokens,
        priority=parse_priority(request.headers.get("X-Priority", "")),
        counted=True,
    )


async def _receive(request: web.Request) -> tuple[ParsedResponse, Stamp, TurnContext]:
    """Return the parsed body with its history, and the parts that serve it.

    Raises:
        ServiceError: the dialect or the model does not support the request, its history is not
            stored, or the worker is not ready.
    """
    context = request.app[CONTEXT]
    body = await read_body(request, context.settings.max_body_bytes)
    fields = await offload(len(body), read, body)
    stamp = _make_stamp(request)
    if log.isEnabledFor(logging.DEBUG) and (names := unknown_keys(body, dialect.KNOWN)):
        log.debug("%s: ignored fields %s", stamp.request_id, ", ".join(names))
    stored = request.app[RESPONSE_CONTEXT]
    history = await _fetch_history(stored.archive, fields)
    await _fetch_references(stored.archive, fields)
    items = [*history, *input_items(fields.input)]
    size_bytes = sum(len(memoryview(item)) for item in items)
    parsed = await offload(size_bytes, make, fields, items, stamp)
    parsed.request.priority = parse_priority(request.headers.get("X-Priority", ""))
    worker = context.registry.resolve(parsed.model)
    card = worker.require_ready()
    refuse_media(parsed.media, card)
    return parsed, stamp, TurnContext(context.generator, stored.archive, worker, card)


async def _fetch_history(archive: ResponseArchive, fields: wire.ResponseBody) -> list[msgspec.Raw]:
    """Return the items of the history that a body continues."""
    if (name := conversation_name(fields)) is not None:
        return await archive.read_conversation(name)
    previous = fields.previous_response_id
    if previous is None:
        return []
    record = await archive.find(previous)
    if record is None:
        raise ServiceError(
            "invalid_request",
            f"previous_response_id '{previous[:100]}' was not found or has expired",
            "previous_response_id",
        )
    return record.items


async def _fetch_references(archive: ResponseArchive, fields: wire.ResponseBody) -> None:
    """Replace references by the stored items."""
    items = input_items(fields.input)
    if references := reference.list_references(items):
        stored: dict[str, msgspec.Raw] = {}
        for family in dict.fromkeys(map(answer.read_family, references.values())):
            if (record := await archive.find_family(family)) is not None:
                stored |= reference.name_items(record.items)
        fields.input = reference.follow(items, references, stored)


def _make_stamp(request: web.Request) -> Stamp:
    stamp = Stamp.create(dialect.ID_PREFIX, request.app[CONTEXT].policy, request[PRINCIPAL])
    return replace(stamp, request_id=dialect.ID_PREFIX + secrets.token_hex(16))


def _not_found(response_id: str) -> ServiceError:
    return ServiceError("not_found", f"response '{response_id[:100]}' not found")
