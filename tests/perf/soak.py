"""Mixed traffic for minutes: memory, slots and cache afterwards.

Clients that read a stream to the end, do not stream, disconnect, send long prompts and send invalid
bodies, all at once. It prints numbers and checks none of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp
import psutil

from tests.perf.client import GREEDY, SAMPLED, BrokenStreamError, Client
from tests.perf.contestant import Server, mlxcel
from tests.perf.latency import long_prompt
from tests.perf.table import show
from tests.perf.throughput import prompts

PARALLEL: Final = 8
CLIENTS: Final = 24
IDLE_S: Final = 30.0
# By then an idle worker has released its unused memory.
SETTLE_S: Final = 6.0
_MIB: Final = 1 << 20
_NONSENSE: Final = (
    b"{",
    b"{}",
    b'{"messages": "Hi"}',
    b'{"messages": [{"role": "nobody", "content": "Hi"}]}',
    b'{"messages": [{"role": "user", "content": "Hi"}], "temperature": "hot"}',
)


async def measure(model: Path, minutes: float) -> None:
    """Run the traffic and print memory, slots and cache."""
    outcomes: Counter[str] = Counter()
    async with mlxcel(model, PARALLEL) as server:
        await _traffic(server.client, time.monotonic() + 10, Counter())  # buffers, code, caches
        await _wait_idle(server.client)
        before = _rss_mib(server)
        await _traffic(server.client, time.monotonic() + 60 * minutes, outcomes)
        slots = await _wait_idle(server.client)
        after = _rss_mib(server)
        cache = await _cache(server.client)
    show("Requests", [{"what": name, "count": count} for name, count in sorted(outcomes.items())])
    show(
        f"Resident memory over {minutes:g} minutes",
        [
            {"process": name, "start MiB": before[name], "end MiB": after[name]}
            for name in server.pids
        ],
    )
    show("Left behind", [{"slots leaked": slots, **cache}])


async def _traffic(client: Client, until_s: float, outcomes: Counter[str]) -> None:
    async with asyncio.TaskGroup() as group:
        for seed in range(CLIENTS):
            group.create_task(_visit(client, random.Random(seed), until_s, outcomes))


async def _visit(
    client: Client, rng: random.Random, until_s: float, outcomes: Counter[str]
) -> None:
    """Send one request after the other until the deadline."""
    visits = (_read, _read, _body, _hang_up, _long, _err)
    while time.monotonic() < until_s:
        visit = rng.choice(visits)
        try:
            outcome = await visit(client, rng)
        except BrokenStreamError as failure:
            outcome = failure.what
        except (aiohttp.ClientError, TimeoutError) as failure:
            outcome = type(failure).__name__
        outcomes[f"{visit.__name__.strip('_')}: {outcome}"] += 1


async def _read(client: Client, rng: random.Random) -> str:
    settings = rng.choice((GREEDY, SAMPLED))
    await client.stream(prompts(1)[0], rng.randrange(1, 200), settings)
    return "200"


async def _long(client: Client, rng: random.Random) -> str:
    await client.stream(long_prompt(rng.randrange(500, 3000)), 20)
    return "200"


async def _body(client: Client, rng: random.Random) -> str:
    body = {
        "messages": [{"role": "user", "content": prompts(1)[0]}],
        "max_tokens": rng.randrange(1, 100),
    }
    async with client.session.post("/v1/chat/completions", json=body) as response:
        await response.read()
        return str(response.status)


async def _hang_up(client: Client, rng: random.Random) -> str:
    """Disconnect while queued, during prefill or during the answer."""
    prompt = long_prompt(2000) if rng.random() < 0.3 else prompts(1)[0]
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(rng.uniform(0.01, 3)):
            await client.stream(prompt, 400)
            return "200"
    return "hung up"


async def _err(client: Client, rng: random.Random) -> str:
    data = rng.choice(_NONSENSE)
    headers = {"Content-Type": "application/json"}
    async with client.session.post("/v1/chat/completions", data=data, headers=headers) as response:
        await response.read()
        return str(response.status)


async def _wait_idle(client: Client) -> int:
    """Return the number of sequences left without requests."""
    deadline_s = time.monotonic() + IDLE_S
    left = -1
    while left and time.monotonic() < deadline_s:
        await asyncio.sleep(1.5)  # one heartbeat per second
        async with client.session.get("/health") as response:
            batch = (await response.json())["batch"]
        left = batch["active_sequences"] + batch["queue_depth"]
    await asyncio.sleep(SETTLE_S)
    return left


async def _cache(client: Client) -> Mapping[str, Any]:
    async with client.session.get("/v1/cache/stats") as response:
        if response.status != 200:
            return {"prompt cache": "none"}
        stats = await response.json()
    return {f"cache {name}": value for name, value in stats.items() if "bytes" in name}


def _rss_mib(server: Server) -> dict[str, float]:
    return {name: psutil.Process(pid).memory_info().rss / _MIB for name, pid in server.pids.items()}
