"""Latency with the real model: first token, between tokens, and after a cache hit."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from tests.perf.client import Stream
from tests.perf.contestant import Server, mlx_lm_server, mlxcel
from tests.perf.table import show
from tests.perf.throughput import prompts

RUNNING: Final = 7
_WORDS: Final = ("river", "clock", "bread", "bridge", "whale", "glass", "map", "chess")
_seeds = itertools.count(1)


def long_prompt(tokens: int) -> str:
    """Return a text of about so many tokens that shares no prefix with earlier prompts."""
    rng = random.Random(next(_seeds))
    return f"{rng.random()} " + " ".join(rng.choice(_WORDS) for _ in range(tokens - 60))


class Background:
    """Streams that run while something else is measured."""

    def __init__(self, server: Server, max_tokens: int) -> None:
        self._words = 0
        self._enough = asyncio.Event()
        self.tasks = [
            asyncio.create_task(server.client.stream(prompt, max_tokens, on_text=self._count))
            for prompt in prompts(RUNNING)
        ]

    def _count(self) -> None:
        self._words += 1
        if self._words >= 4 * RUNNING:
            self._enough.set()

    async def flowing(self) -> None:
        """Wait until the streams have sent a few tokens each."""
        await asyncio.wait_for(self._enough.wait(), 60)

    async def finished(self) -> list[Stream]:
        """Wait until the streams end."""
        return list(await asyncio.wait_for(asyncio.gather(*self.tasks), 300))


@contextlib.asynccontextmanager
async def _servers(model: Path) -> AsyncIterator[list[Server]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(mlxcel(model, RUNNING + 1)),
            await stack.enter_async_context(mlx_lm_server(model, RUNNING + 1)),
        ]


async def measure_ttft(model: Path, rounds: int) -> None:
    """Measure the time to first token of a request beside seven running streams."""
    waits: dict[str, list[float]] = {}
    async with _servers(model) as servers:
        for _ in range(rounds):
            for server in servers:
                waits.setdefault(server.name, []).append(await _wait_behind(server))
    ours, theirs = waits.values()
    pairs = zip(ours, theirs, strict=True)
    row = {
        **{f"{name} ms": 1000 * median(times) for name, times in waits.items()},
        "mlxcel ÷ mlx_lm": median(mine / other for mine, other in pairs),
    }
    show(f"First token behind {RUNNING} running streams (rounds: {rounds})", [row])


async def _wait_behind(server: Server) -> float:
    background = Background(server, max_tokens=20)
    await background.flowing()
    await asyncio.sleep(random.uniform(0, 0.3))  # at a random point of a step
    stream = await server.client.stream(prompts(1)[0], 2)
    await background.finished()
    return stream.ttft_s


async def measure_gap(model: Path, prompt_tokens: int) -> None:
    """Measure how long running streams pause while a long prompt arrives."""
    async with _servers(model) as servers:
        rows = [{"server": server.name, **await _gap(server, prompt_tokens)} for server in servers]
    title = f"{RUNNING} running streams while a prompt of {prompt_tokens} tokens arrives"
    show(title, rows)


async def _gap(server: Server, prompt_tokens: int) -> dict[str, object]:
    background = Background(server, max_tokens=96)
    await background.flowing()
    await asyncio.sleep(4)  # for the median of an undisturbed run
    sent_s = time.perf_counter()
    long = await server.client.stream(long_prompt(prompt_tokens), 2)
    streams = await background.finished()
    quiet = median(_gaps(streams, 0.0, sent_s))
    busy = _gaps(streams, sent_s, sent_s + long.ttft_s + 1.0)
    return {
        "quiet median ms": 1000 * quiet,
        "longest ms": 1000 * max(busy),
        "longest ÷ quiet median": max(busy) / quiet,
        "busy median ms": 1000 * median(busy),
        "long prompt's TTFT s": long.ttft_s,
    }


def _gaps(streams: Sequence[Stream], since_s: float, until_s: float) -> list[float]:
    return [gap for stream in streams for gap in stream.gaps_s(since_s, until_s)]


async def measure_prefix(model: Path, prefix_tokens: int, rounds: int) -> None:
    """Measure the time to first token of a prompt with a cached prefix."""
    rows = []
    async with mlxcel(model, 1) as server:
        for _ in range(rounds):
            prefix = long_prompt(prefix_tokens)
            cold = await server.client.stream(f"{prefix} Write a story with these words.", 2)
            warm = await server.client.stream(f"{prefix} Explain what these words mean.", 2)
            rows.append((cold, warm))
    row = {
        "cold ms": 1000 * median(cold.ttft_s for cold, _ in rows),
        "cached ms": 1000 * median(warm.ttft_s for _, warm in rows),
        "cached ÷ cold": median(warm.ttft_s / cold.ttft_s for cold, warm in rows),
        "cached tokens": max(warm.cached_tokens for _, warm in rows),
    }
    show(f"First token after a known prefix of {prefix_tokens} tokens (rounds: {rounds})", [row])
