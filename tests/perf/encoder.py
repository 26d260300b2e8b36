"""Texts per second of embeddings: a bare loop, this server, and onnxruntime.

Contestants take turns within a round, and a ratio is the median of the ratios of the rounds. A list
is sent to the server as one request; many clients with one text each are a case of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import itertools
import json
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import aiohttp

from tests.perf.client import open_session
from tests.perf.contestant import Bare, open_bare
from tests.perf.table import show
from tests.server import serve_fleet

WORDS: Final = [
    "rivers",
    "clocks",
    "bread",
    "bridges",
    "whales",
    "glass",
    "maps",
    "chess",
    "and",
    "the",
    "of",
    "with",
    "near",
    "old",
]
# Words of a text; the tokens are slightly more.
SHORT, LONG = 7, 120
CLIENTS: Final = 32
# Maximum rounds of a short run, and the number of words that is enough for all rounds.
_MANY: Final = 15
_ENOUGH_WORDS: Final = 4000
_numbers = itertools.count(1)

Run = Callable[[Sequence[str]], Awaitable[float]]


def write_texts(count: int, words: int) -> list[str]:
    """Return different texts, up to a third shorter or longer than `words`."""
    made = []
    for _ in range(count):
        number = next(_numbers)
        length = max(1, words + (number * 7 % (2 * (words // 3) + 1)) - words // 3)
        made.append(" ".join(WORDS[(number + at * 5) % len(WORDS)] for at in range(length)))
    return made


class Server:
    """This server, with one list at a time."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def run(self, texts: Sequence[str]) -> float:
        """Return the seconds of one request, to the last byte of its answer."""
        start_s = time.perf_counter()
        body = {"input": texts, "encoding_format": "base64"}
        async with self._session.post("/v1/embeddings", json=body) as reply:
            answer = await reply.json()
            assert len(answer["data"]) == len(texts), answer
        return time.perf_counter() - start_s

    async def run_each(self, texts: Sequence[str], clients: int) -> float:
        """Return the seconds for all texts by several clients with one text per request."""
        left = iter(texts)

        async def work() -> None:
            for text in left:
                await self.run([text])

        start_s = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(clients)))
        return time.perf_counter() - start_s


@contextlib.asynccontextmanager
async def serve(model: Path) -> AsyncIterator[Server]:
    """Start this server with this model only."""
    with tempfile.TemporaryDirectory(prefix="mlxcel-perf-") as folder:
        worker = {"name": "embed", "kind": "embed", "model": str(model)}
        with serve_fleet(Path(folder), worker) as server:
            async with open_session(server.url) as session:
                yield Server(session)


async def _run_bare(bare: Bare, texts: Sequence[str]) -> float:
    return float(await bare.ask(json.dumps(texts).encode()))


@contextlib.asynccontextmanager
async def _contestants(model: Path) -> AsyncIterator[dict[str, Run]]:
    engines = ["mlx"]
    if importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx"):
        engines.append("onnx")
    async with contextlib.AsyncExitStack() as stack:
        runs: dict[str, Run] = {}
        for engine in engines:
            command = ["-m", "tests.perf.bare_encoder", engine, str(model)]
            bare = await stack.enter_async_context(open_bare(command))
            runs[engine] = lambda texts, bare=bare: _run_bare(bare, texts)
        runs["mlxcel"] = (await stack.enter_async_context(serve(model))).run
        yield runs


async def measure(model: Path, counts: Sequence[tuple[int, int]], rounds: int) -> None:
    """Compare the contestants.

    Args:
        counts: pairs of the number of texts and the words of each.
    """
    rows = []
    async with _contestants(model) as runs:
        for run in runs.values():
            await run(write_texts(CLIENTS, SHORT))
        for count, words in counts:
            speeds: dict[str, list[float]] = {name: [] for name in runs}
            # Short runs are repeated often to reduce noise.
            repeats = max(rounds, min(_MANY, _ENOUGH_WORDS // (count * words)))
            for _ in range(repeats):
                for name, run in runs.items():
                    # Threads of the previous contestant may spin for a while.
                    await asyncio.sleep(0.1)
                    speeds[name].append(count / await run(write_texts(count, words)))
            rows.append({"texts": count, "words": words, "rounds": repeats, **_row(speeds)})
    show(f"Embeddings of {model.name}, texts/s", rows)


def _row(speeds: dict[str, list[float]]) -> dict[str, object]:
    row: dict[str, object] = {name: median(each) for name, each in speeds.items()}
    for name in ("mlx", "onnx"):
        pairs = zip(speeds["mlxcel"], speeds.get(name, ()), strict=False)
        ratios = [mine / other for mine, other in pairs]
        row[f"mlxcel ÷ {name}"] = median(ratios) if ratios else None
    return row


async def measure_clients(model: Path, texts: int, rounds: int) -> None:
    """Compare many clients with one text per request with one such client."""
    alone: list[float] = []
    together: list[float] = []
    async with serve(model) as server:
        await server.run_each(write_texts(CLIENTS, SHORT), CLIENTS)
        for _ in range(rounds):
            alone.append(texts / await server.run_each(write_texts(texts, SHORT), 1))
            together.append(texts / await server.run_each(write_texts(texts, SHORT), CLIENTS))
    row = {
        "one client": median(alone),
        f"{CLIENTS} clients": median(together),
        "ratio": median([many / one for one, many in zip(alone, together, strict=True)]),
    }
    show(f"One text per request to {model.name}, texts/s (rounds: {rounds})", [row])
