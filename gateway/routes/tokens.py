"""Routes that count tokens, tokenize, or render a chat template, without generation.

Owns the responses; bodies are parsed by the dialect of the route, so that the count is that of the
prompt that would run. Runs in the handler's task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from gateway.context import CONTEXT
from gateway.dialects.anthropic import messages
from gateway.dialects.base import P, TextDialect
from gateway.dialects.llama import errors, tokenization
from gateway.dialects.openai import chat
from gateway.fleet.text_client import TextClient
from gateway.http.answer import Handler, answer_json
from gateway.http.offload import offload
from gateway.routes.route import Route
from gateway.routes.text import read, receive
from shared.pb import text_pb2 as pb


def routes() -> list[Route]:
    return [
        *_count_routes(chat, "/v1/chat/completions/input_tokens", "/chat/completions/input_tokens"),
        *_count_routes(
            messages,
            "/v1/messages/count_tokens",
            "/messages/count_tokens",
            context_management=None,
        ),
        Route("POST", "/apply-template", apply_template, chat),
        Route("POST", "/tokenize", tokenize, errors),
        Route("POST", "/detokenize", detokenize, errors),
    ]


def _count_routes(dialect: TextDialect[P], *paths: str, **more: Any) -> list[Route]:
    """Return routes that count the prompt tokens of a dialect's body.

    Args:
        more: further fields of the response.
    """
    return [Route("POST", path, _counter(dialect, more), dialect) for path in paths]


def _counter(dialect: TextDialect[P], more: Mapping[str, Any]) -> Handler:
    async def count(request: web.Request) -> web.Response:
        rendered = await render(request, dialect)
        return answer_json({"input_tokens": rendered.prompt_tokens, **more})

    return count


async def tokenize(request: web.Request) -> web.Response:
    body = await read(request)
    parsed, model = await offload(len(body), tokenization.parse_tokenize, body)
    reply = await _client(request, model).tokenize(parsed)
    with_pieces = parsed.with_pieces
    tokens = await offload(len(body), tokenization.describe_tokens, reply, with_pieces=with_pieces)
    return answer_json(tokens)


async def detokenize(request: web.Request) -> web.Response:
    body = await read(request)
    parsed, model = await offload(len(body), tokenization.parse_detokenize, body)
    reply = await _client(request, model).detokenize(parsed)
    return answer_json({"content": reply.text})


def _client(request: web.Request, model: str | None) -> TextClient:
    return request.app[CONTEXT].registry.resolve(model).client()


async def apply_template(request: web.Request) -> web.Response:
    """Respond with the prompt that the chat template renders."""
    rendered = await render(request, chat)
    return answer_json({"prompt": rendered.prompt})


async def render(request: web.Request, dialect: TextDialect[P]) -> pb.RenderReply:
    """Return the prompt of a body and its token count.

    Raises:
        ServiceError: as `receive` does, or the template refuses the conversation.
    """
    parsed, worker, _ = await receive(request, dialect)
    return await worker.client().render(parsed.request)
