"""Requests leave no memory and no slots behind."""

from __future__ import annotations

import asyncio
import random

import psutil

from tests.prompt import MIX, make_prompt
from tests.wait import until
from tests.worker import link
from workers.device_memory import CPU_RELEASE_AFTER_S

# Fragmentation may raise the memory once; a leak raises it in every round.
_ROUNDS = 3


async def run_mixed(client, count, seed):
    """Run requests of mixed sizes and settings, at most 12 at once; some are cancelled."""
    rng = random.Random(seed)
    room = asyncio.Semaphore(12)

    async def one(number):
        fields = MIX[number % 4] | {"max_tokens": rng.randint(1, 40)}
        prompt = make_prompt(number, rng.choice([3, 30, 30, 400]))
        async with room:
            ask = client.ask_stream if number % 2 else client.ask
            task = asyncio.create_task(ask(prompt, **fields))
            if number % 10 == 9:
                await asyncio.sleep(0.05)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            else:
                await task

    await asyncio.gather(*(one(number) for number in range(count)))
    await until(client.is_idle, 5)


async def test_memory_does_not_grow_over_rounds_of_mixed_requests(fleet, client):
    (gateway,) = fleet.find("gateway")
    async with link(fleet.address()) as worker:

        async def measure():
            await client.reset_cache()
            await asyncio.sleep(CPU_RELEASE_AFTER_S + 1)
            memory = (await worker.fresh_beat()).memory
            gateway_bytes = psutil.Process(gateway.pid).memory_info().rss
            return memory.active_bytes, memory.rss_bytes, gateway_bytes

        await run_mixed(client, 20, seed=1)
        grown = []
        before = await measure()
        for seed in range(_ROUNDS):
            await run_mixed(client, 200, seed=2 + seed)
            after = await measure()
            grown.append([now / then for now, then in zip(after, before, strict=True)])
            if max(grown[-1]) < 1.1:
                break
            before = after
        beat = worker.beat
    assert max(grown[-1]) < 1.1, grown
    assert (beat.slots_active, beat.queue_depth) == (0, 0)
    assert beat.memory.kv_bytes == beat.memory.prompt_cache_bytes == 0
