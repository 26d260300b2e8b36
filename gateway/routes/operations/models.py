"""GET /v1/models: the models of this server.

Owns the shape of an entry: the reference's four keys, those that clients of llama-server also
read, and the list for Ollama's clients. Anthropic's clients get the form of their API instead.
Runs on the gateway's event loop and calls no worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Final

from aiohttp import web

from gateway.context import CONTEXT
from gateway.dialects.anthropic import model
from gateway.dialects.openai import errors
from gateway.fleet.worker import Worker
from gateway.http.answer import answer_json
from gateway.routes.route import Route
from shared.errors import ServiceError
from shared.kind import DEFAULT, KINDS
from shared.pb import worker_pb2

# Anthropic's clients send it with every request.
_ANTHROPIC_HEADER: Final = "anthropic-version"


def routes() -> list[Route]:
    return [
        *(Route("GET", path, list_models, errors) for path in ("/v1/models", "/models")),
        # Names on the hub contain a slash.
        Route("GET", "/v1/models/{model:.+}", get_model, errors),
    ]


async def list_models(request: web.Request) -> web.Response:
    """List every model that has been ready, and those that can't start with the reason.

    Anthropic's clients get the text models, which are those that they can use.
    """
    workers = request.app[CONTEXT].registry.workers
    if _ANTHROPIC_HEADER in request.headers:
        cards = [card for _, card in _list_cards(workers) if card.kind == DEFAULT]
        return answer_json(model.page(cards))
    return answer_json(describe(workers))


async def get_model(request: web.Request) -> web.Response:
    """Answer one model's entry, by its name or an alias."""
    name = request.match_info["model"]
    workers = request.app[CONTEXT].registry.workers
    for worker, card in _list_cards(workers):
        if name in (card.name, *card.aliases):
            is_anthropic = _ANTHROPIC_HEADER in request.headers
            return answer_json(model.entry(card) if is_anthropic else _entry(worker, card))
    raise ServiceError("model_not_found", f"The model '{name[:200]}' does not exist.", "model")


def describe(workers: Sequence[Worker]) -> dict[str, Any]:
    """Return the report on models."""
    found = _list_cards(workers)
    cards = [card for _, card in found]
    return {
        "object": "list",
        "data": [_entry(worker, card) for worker, card in found],
        "models": [_ollama_entry(card) for card in cards],
        # For Anthropic's clients, which read pages.
        "first_id": cards[0].name if cards else None,
        "last_id": cards[-1].name if cards else None,
        "has_more": False,
    }


def _list_cards(workers: Sequence[Worker]) -> list[tuple[Worker, worker_pb2.ModelCard]]:
    """Return the workers to list, each with its card."""
    return [
        (worker, worker.card or _make_card(worker))
        for worker in workers
        if worker.card is not None or worker.failure
    ]


def _make_card(worker: Worker) -> worker_pb2.ModelCard:
    """Return what the fleet file says of a model that has never been loaded."""
    worker_name, *given = worker.names()
    name, *aliases = dict.fromkeys(filter(None, (*given, worker_name)))
    return worker_pb2.ModelCard(name=name, aliases=aliases, kind=worker.entry.kind)


def _entry(worker: Worker, card: worker_pb2.ModelCard) -> dict[str, Any]:
    created = datetime.fromtimestamp(card.created_unix_s, UTC)
    entry = {
        "id": card.name,
        "object": "model",
        "created": card.created_unix_s,
        "owned_by": "user",
        "type": "model",
        "display_name": card.name,
        "created_at": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "aliases": list(card.aliases),
        "tags": [],
        "capabilities": _capabilities(card),
        "meta": {
            "n_vocab": card.vocab_tokens,
            "n_ctx": card.context_tokens,
            "n_ctx_train": card.trained_context_tokens,
            "n_params": card.parameters,
            "size": card.weight_bytes,
        },
    }
    if worker.failure:
        # As llama-server's router reports a model whose process has exited.
        entry["status"] = {"value": "unloaded", "failed": True, "reason": worker.failure}
    return entry


def _ollama_entry(card: worker_pb2.ModelCard) -> dict[str, Any]:
    details = {
        "parent_model": "",
        "format": "mlx",
        "family": card.model_type,
        "families": [card.model_type],
        "parameter_size": "",
        "quantization_level": f"Q{card.quantization_bits}" if card.quantization_bits else "",
    }
    return {
        "name": card.name,
        "model": card.name,
        "modified_at": "",
        "size": "",
        "digest": "",
        "type": "model",
        "description": "",
        "tags": [],
        "capabilities": _capabilities(card),
        "parameters": "",
        "details": details,
    }


def _capabilities(card: worker_pb2.ModelCard) -> list[str]:
    # The card may come from a worker of another release.
    if card.kind not in KINDS:
        return []
    return [
        capability.name
        for capability in KINDS[card.kind].capabilities
        if not capability.card_flag or attrgetter(capability.card_flag)(card)
    ]
