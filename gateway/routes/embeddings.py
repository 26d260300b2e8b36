"""Embeddings and rerank requests in all their forms.

Owns the steps from body to response: read, parse, find the worker, check against its model, call,
render. Large bodies are parsed and rendered on a thread. Runs in the handler's task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from aiohttp import web

from gateway.context import CONTEXT, Context
from gateway.dialects import embeddings, rerank, tei
from gateway.dialects.openai import errors
from gateway.dialects.sampling import invalid
from gateway.fleet.unary_client import A, Method, Q
from gateway.fleet.unary_worker import UnaryWorker
from gateway.http.answer import answer_json
from gateway.http.body import read_body
from gateway.http.offload import offload
from gateway.routes.route import Route
from gateway.routes.text import parse_priority
from shared.errors import ServiceError
from shared.kind import KINDS
from shared.pb import embed_pb2 as pb
from shared.pb import worker_pb2
from shared.pb.embed_pb2_grpc import EmbedStub
from shared.rpc import MAX_MESSAGE_BYTES


def routes() -> list[Route]:
    # Cohere's newer client has a path of its own for the same form.
    ranking = ("/v1/rerank", "/v1/reranking", "/v2/rerank", "/rerank", "/reranking")
    return [
        Route("POST", "/v1/embeddings", embed, errors, "embed"),
        Route("POST", "/embeddings", embed_native, errors, "embed"),
        Route("POST", "/embedding", embed_native, errors, "embed"),
        Route("POST", "/embed", embed_tei, errors, "embed"),
        Route("GET", "/info", show_info, errors, "embed"),
        *(Route("POST", path, rank, errors, "rerank") for path in ranking),
    ]


async def embed(request: web.Request) -> web.Response:
    """Respond in OpenAI's form."""
    fields, card, reply = await _embed(request, embeddings.parse)
    return await _respond(reply, embeddings.render(fields, card.name, reply))


async def embed_native(request: web.Request) -> web.Response:
    """Respond in llama-server's form."""
    _, _, reply = await _embed(request, partial(embeddings.parse, is_native=True))
    return await _respond(reply, embeddings.render_native(reply))


async def embed_tei(request: web.Request) -> web.Response:
    """Respond in the form of text-embeddings-inference."""
    _, _, reply = await _embed(request, tei.parse)
    return await _respond(reply, tei.render(reply))


async def show_info(request: web.Request) -> web.Response:
    """Describe the embedding model, or else the reranker."""
    context = request.app[CONTEXT]
    kind = "embed" if context.registry.of_kind("embed") else "rerank"
    _, card = _find(context, kind, None)
    return answer_json(tei.describe(card, reranks=kind == "rerank"))


async def rank(request: web.Request) -> web.Response:
    context = request.app[CONTEXT]
    data = await _read(request, context)
    body = await offload(len(data), rerank.parse, data)
    worker, card = _find(context, "rerank", body.fields.model)
    message = await offload(len(data), rerank.build, body, card)
    message.priority = parse_priority(request.headers.get("X-Priority", ""))
    reply = await _call(context, worker, lambda channel: EmbedStub(channel).Rerank, message)
    answer = rerank.render(body, card.name, reply)
    context.metrics.note_inputs(reply.prompt_tokens)
    return web.Response(body=answer, content_type="application/json")


async def _embed(
    request: web.Request, parse: Callable[[bytes], embeddings.EmbeddingsBody]
) -> tuple[embeddings.EmbeddingsBody, worker_pb2.ModelCard, pb.EmbedReply]:
    """Return the fields of a body, the model's card, and its reply."""
    context = request.app[CONTEXT]
    data = await _read(request, context)
    fields = await offload(len(data), parse, data)
    worker, card = _find(context, "embed", fields.model)
    message = await offload(len(data), embeddings.build, fields, card)
    message.priority = parse_priority(request.headers.get("X-Priority", ""))
    reply = await _call(context, worker, lambda channel: EmbedStub(channel).Embed, message)
    context.metrics.note_inputs(reply.prompt_tokens)
    return fields, card, reply


async def _read(request: web.Request, context: Context) -> bytes:
    """Return the body, which must fit into one gRPC message."""
    return await read_body(request, min(context.settings.max_body_bytes, MAX_MESSAGE_BYTES))


def _find(
    context: Context, kind: str, model: str | None
) -> tuple[UnaryWorker, worker_pb2.ModelCard]:
    """Return the worker a model's name means, and its card.

    Raises:
        ServiceError: there is none of the kind, none of the name, or it does not take requests.
    """
    workers = context.registry.of_kind(kind)
    if not workers:
        raise ServiceError("not_implemented", KINDS[kind].capabilities[0].unserved)
    if model is None:
        return workers[0], workers[0].require_ready()
    for worker in workers:
        if model in worker.names():
            return worker, worker.require_ready()
    # A worker that has never been ready may turn out to have the name.
    has_card = any(worker.card is not None for worker in workers)
    for worker in workers:
        if worker.card is None and not (has_card and worker.state == "failed"):
            worker.require_ready()
    served = dict.fromkeys(name for worker in workers for name in _names(worker))
    raise invalid("model", f"must be one of {', '.join(served)}")


def _names(worker: UnaryWorker) -> list[str]:
    """Return the names of a worker's model; the one in responses comes first."""
    return [worker.card.name, *worker.card.aliases] if worker.card is not None else []


async def _call(context: Context, worker: UnaryWorker, method: Method[Q, A], message: Q) -> A:
    """Return a worker's reply; failures get the messages of the reference."""
    name = KINDS[worker.entry.kind].title
    try:
        return await worker.call(method, message, context.settings.timeout_s)
    except ServiceError as failure:
        if failure.code == "timeout":
            text = f"{name} request timed out. Please try again later."
            raise ServiceError("timeout", text) from None
        if failure.code in ("engine_failed", "internal"):
            reason = failure.message.removeprefix("inference ")
            verb = "" if reason != failure.message else "failed: "
            raise ServiceError(failure.code, f"{name.lower()} inference {verb}{reason}") from None
        raise


async def _respond(reply: pb.EmbedReply, parts: Iterator[bytes]) -> web.Response:
    body = await offload(len(reply.vectors), b"".join, parts)
    return web.Response(body=body, content_type="application/json")
