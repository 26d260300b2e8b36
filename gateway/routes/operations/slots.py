"""GET /slots: the state of each slot of a worker, and the requests that wait for one.

Owns the form of the response. `?model=` names a worker; the slots of its replicas are listed one
after the other. `?fail_on_no_slot=1` responds 503 if none is free. Runs on the gateway's event
loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aiohttp import web

from gateway.context import CONTEXT
from gateway.dialects.llama import errors
from gateway.http.answer import answer_json
from gateway.routes.route import Route
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb
from shared.pb import worker_pb2

_STATES: Final[Mapping[int, str]] = {
    pb.Slot.STATE_IDLE: "idle",
    pb.Slot.STATE_PREFILL: "decoding",
    pb.Slot.STATE_DECODING: "decoding",
    pb.Slot.STATE_QUEUED: "queued",
}
_BUSY: Final = (pb.Slot.STATE_PREFILL, pb.Slot.STATE_DECODING)


def routes() -> list[Route]:
    return [Route("GET", "/slots", get_slots, errors)]


async def get_slots(request: web.Request) -> web.Response:
    """Respond with one entry per slot, then one per waiting request."""
    context = request.app[CONTEXT]
    if not context.settings.slots:
        raise ServiceError(
            "not_supported", "This server does not support slots endpoint. Start it with `--slots`"
        )
    worker = context.registry.resolve(request.query.get("model"))
    card = worker.require_ready()
    replies = await asyncio.gather(*(client.slots() for client in worker.clients()))
    slots = [slot for reply in replies for slot in reply.slots]
    waiting = [pb.Slot(state=pb.Slot.STATE_QUEUED)] * worker.admission.waiting
    if request.query.get("fail_on_no_slot") and all(
        slot.state != pb.Slot.STATE_IDLE for slot in slots
    ):
        raise ServiceError("server_busy", "no slot available", retry_after_s=1.0)
    return answer_json(describe([*slots, *waiting], card))


def describe(slots: Sequence[pb.Slot], card: worker_pb2.ModelCard) -> list[dict[str, Any]]:
    """Return the report on slots; prefill counts as decoding."""
    return [
        {
            "id": index,
            "state": _STATES.get(slot.state, "idle"),
            "model": card.name,
            "context_size": card.context_tokens,
            "is_processing": slot.state in _BUSY,
        }
        for index, slot in enumerate(slots)
    ]
