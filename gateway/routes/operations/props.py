"""GET and POST /props: the settings of a model, which can't be changed while it is served.

`?model=` names a worker. Runs on the gateway's event loop and calls no worker.
"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from gateway.context import CONTEXT, Context
from gateway.dialects.llama import errors, props
from gateway.http.answer import answer_json
from gateway.routes.route import Route
from shared.errors import ServiceError


def routes() -> list[Route]:
    return [
        Route("GET", "/props", get_props, errors),
        Route("POST", "/props", post_props, errors),
    ]


async def get_props(request: web.Request) -> web.Response:
    """Answer the model's defaults, template and capabilities."""
    context = request.app[CONTEXT]
    worker = context.registry.resolve(request.query.get("model"))
    card = worker.require_ready()
    settings = context.settings
    endpoints = {
        "slots": settings.slots,
        "props": settings.props,
        "metrics": bool(settings.metrics or settings.metrics_port),
    }
    report = props.describe(card, worker.slots, endpoints, settings.seed)
    return answer_json(report | {"capabilities": {"embedding": _describe_embedding(context)}})


def _describe_embedding(context: Context) -> dict[str, Any] | None:
    """Describe the first embedding model; None until one has been ready."""
    cards = [worker.card for worker in context.registry.workers]
    card = next((card for card in cards if card is not None and card.encoder.dimensions), None)
    return card and {
        "model": card.name,
        "dim": card.encoder.dimensions,
        "pooling": card.encoder.pooling,
        "embd_normalize": card.encoder.normalize,
        "multi_vector": False,
    }


async def post_props(request: web.Request) -> web.Response:
    """Report success, as llama-server does; neither server changes anything."""
    if not request.app[CONTEXT].settings.props:
        raise ServiceError(
            "not_supported",
            "This server does not support changing global properties. Start it with `--props`",
        )
    return answer_json({"success": True})
