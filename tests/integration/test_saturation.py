"""Ten times more requests than the queue holds, all at once."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter

from tests.client import CHAT, GREEDY
from tests.prompt import make_prompt
from tests.wait import until

DEPTH = 32
SLOTS = 8


async def test_a_burst_is_served_or_refused_and_the_next_request_served(client):
    client = client.having(model="bytes", **GREEDY, max_tokens=20)

    async def ask(number):
        body = client.body(make_prompt(number, 5), stream=number % 2 == 0)
        async with client.session.post(CHAT, json=body) as reply:
            return reply.status, reply.headers, await reply.read()

    async with asyncio.timeout(60):
        replies = await asyncio.gather(*(ask(number) for number in range(10 * DEPTH)))
    counts = Counter(status for status, _, _ in replies)
    assert set(counts) == {200, 503}
    assert counts[200] >= DEPTH + SLOTS
    for status, headers, body in replies:
        if status == 200:
            assert b'"finish_reason":"length"' in body
        else:
            assert headers["Content-Type"] == "application/json"
            assert int(headers["Retry-After"]) >= 1
            assert b'"type":"server_busy"' in body
            assert b"All slots are busy. Please try again later." in body
    await client.ask(make_prompt(1))
    await until(client.is_idle, 3)


async def test_a_refusal_is_as_fast_as_health(client, capsys):
    """The path of a refusal only counts."""
    client = client.having(model="bytes", **GREEDY)
    fields = {"max_tokens": 4000, "cache_prompt": False}
    tasks = [
        asyncio.create_task(client.ask(make_prompt(n), **fields)) for n in range(DEPTH + SLOTS)
    ]

    async def is_full():
        return (await client.slots()).count("queued") == DEPTH

    await until(is_full)

    async def time_one(send):
        began_s = time.perf_counter()
        status, _ = await send
        return status, time.perf_counter() - began_s

    refused = [await time_one(client.post("no", **fields)) for _ in range(100)]
    asked = [await time_one(client.get("/health")) for _ in range(100)]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await until(client.is_idle, 3)

    assert {status for status, _ in refused} == {503}
    refusal_s, health_s = (statistics.median(s for _, s in times) for times in (refused, asked))
    with capsys.disabled():
        print(f"\na refusal takes {refusal_s * 1e3:.2f} ms, /health {health_s * 1e3:.2f} ms")
    assert refusal_s < 3 * health_s + 0.005
