"""GET /v1/models: what can be asked of this server. Runs on the gateway's event loop."""

from __future__ import annotations

from aiohttp import web

from gateway.context import CONTEXT
from gateway.dialects.openai import errors
from gateway.routes.route import Route, answer_json


def routes() -> list[Route]:
    """Return the routes of this module."""
    return [Route("GET", path, list_models, errors) for path in ("/v1/models", "/models")]


async def list_models(request: web.Request) -> web.Response:
    """List every model that has been ready; one whose worker restarts stays listed."""
    models = [
        {
            "id": worker.card.name,
            "object": "model",
            "created": worker.card.created_unix_s,
            "owned_by": "user",
        }
        for worker in request.app[CONTEXT].registry.workers
        if worker.card is not None
    ]
    return answer_json({"object": "list", "data": models})
