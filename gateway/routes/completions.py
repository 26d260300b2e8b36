"""POST /v1/completions, whose body may hold several prompts.

Owns running the requests of one body side by side: a failure of one, or a client that has gone,
ends them all. A body with one prompt takes the path of every other dialect. Runs in the handler's
task.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from aiohttp import web

from gateway.context import CONTEXT
from gateway.dialects.openai import completions
from gateway.dialects.openai.completion_stream import CompletionsStream
from gateway.generation.fold import Completion, Item, fold
from gateway.routes.route import Route
from gateway.routes.text import ping_interval, receive, respond, send_stream

Items = AsyncGenerator[Sequence[Item]]

# Requests of one body that are queued at a time, so that others get their turn.
_AT_ONCE: Final = 8
# Batches that wait for a slow client.
_QUEUE_LENGTH: Final = 32


def routes() -> list[Route]:
    return [Route("POST", "/v1/completions", complete, completions)]


async def complete(request: web.Request) -> web.StreamResponse:
    parsed, worker, card = await receive(request, completions)
    if not parsed.others:
        return await respond(request, completions, parsed, worker, card)
    context = request.app[CONTEXT]
    for other in parsed.others:
        other.priority = parsed.request.priority
    requests = [parsed.request, *parsed.others]
    runs = [context.generator.run(each, worker, counted=parsed.counted) for each in requests]
    if parsed.stream:
        renderer = CompletionsStream(parsed, card.name, len(runs))
        data = _render(runs, renderer)
        return await send_stream(request, renderer, data, ping_interval(context, parsed))
    answers = await _gather(runs)
    body = completions.render_all(parsed, card.name, answers)
    return web.Response(body=body, content_type="application/json")


async def _gather(runs: Sequence[Items]) -> list[Completion]:
    """Return the completions of all runs; the first failure ends the others."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def finish(items: Items) -> Completion:
        async with room, contextlib.aclosing(items):
            return await fold(items)

    tasks = [asyncio.create_task(finish(items)) for items in runs]
    try:
        return await asyncio.gather(*tasks)
    finally:
        await _cancel(tasks)


async def _render(runs: Sequence[Items], renderer: CompletionsStream) -> AsyncGenerator[bytes]:
    """Yield the events of all runs as they come."""
    room = asyncio.Semaphore(_AT_ONCE)
    queue: asyncio.Queue[bytes | None] = asyncio.Queue(_QUEUE_LENGTH)

    async def pump(index: int, items: Items) -> None:
        async with room, contextlib.aclosing(items):
            async for batch in items:
                data = b"".join(renderer.feed_choice(index, item) for item in batch)
                if data:
                    await queue.put(data)

    async def pump_all(tasks: Sequence[asyncio.Task[None]]) -> None:
        # Nothing is put after a cancellation: nobody reads a full queue then.
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        await queue.put(None)

    tasks = [asyncio.create_task(pump(*item)) for item in enumerate(runs)]
    whole = asyncio.create_task(pump_all(tasks))
    try:
        while (data := await queue.get()) is not None:
            yield data
        await asyncio.gather(*tasks)
    finally:
        await _cancel([whole, *tasks])


async def _cancel(tasks: Sequence[asyncio.Task[object]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
