"""Priorities: high-priority requests overtake waiting ones, and none starves."""

from __future__ import annotations

import asyncio
import statistics
import time

import pytest

from shared.pb import common_pb2 as common
from tests.client import GREEDY, assert_same
from tests.prompt import make_prompt
from tests.wait import until
from tests.worker import link

LOW, NORMAL, HIGH = common.PRIORITY_LOW, common.PRIORITY_NORMAL, common.PRIORITY_HIGH


@pytest.fixture
async def worker(fleet, client):
    async with link(fleet.address()) as worker:
        yield worker
    await until(client.is_idle, 3)


async def test_a_high_priority_request_is_prefilled_within_two_steps(worker):
    """Eight low-priority requests run; each of five high-priority ones takes a slot at once."""
    low = [(await worker.submit(make_prompt(n), 60, LOW))[0] for n in range(40)]
    await until(lambda: worker.beat.slots_active == 8 and worker.beat.queue_depth > 16)
    waits = []
    for number in range(5):
        key, accepted = await worker.submit(make_prompt(50 + number), 5, HIGH)
        started = (await worker.find(key, "started")).started
        waits.append(started.step - accepted.step)
        await worker.find(key, "finished")
    assert not all(worker.has(key, "finished") for key in low)
    assert max(waits) <= 2, waits
    for key in low:
        assert (await worker.find(key, "finished")).finished.usage.completion_tokens == 60


async def test_requests_are_served_by_priority_and_then_by_arrival(worker):
    # Long enough that the first still runs when the last arrives, even on a busy machine.
    submits = [worker.submit(make_prompt(n), 250, NORMAL) for n in range(8)]
    holders = [key for key, _ in await asyncio.gather(*submits)]
    await until(lambda: worker.beat.slots_active == 8)
    classes = [LOW, NORMAL, LOW, NORMAL, NORMAL, LOW]
    waiting = [(await worker.submit("wait", 2, priority))[0] for priority in classes]
    starts = [(await worker.find(key, "started")).started.step for key in waiting]
    for key in holders + waiting:
        await worker.find(key, "finished")
    order = sorted(range(6), key=lambda index: (classes[index], index))
    assert [starts[index] for index in order] == sorted(starts), starts


async def test_preempted_requests_keep_their_grammars_and_texts(client):
    """Low-priority requests hold all slots, so a high-priority one must preempt one of them."""
    text = {"type": "object", "properties": {"a": {"type": "string", "minLength": 250}}}
    text |= {"required": ["a"], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": text}}
    low = client.having(cache_prompt=False, max_tokens=150, top_k=20, temperature=1.5)

    def ask_all():
        return [
            asyncio.create_task(
                low.ask(
                    make_prompt(60 + n),
                    headers={"X-Priority": "low"},
                    seed=n,
                    response_format=form if n % 2 else None,
                )
            )
            for n in range(8)
        ]

    undisturbed = await asyncio.gather(*ask_all())
    tasks = ask_all()

    async def all_decode():
        return (await client.slots()).count("decoding") == 8

    await until(all_decode)
    await client.ask("hi", headers={"X-Priority": "high"}, **GREEDY, max_tokens=1)
    assert not any(task.done() for task in tasks)
    assert_same(await asyncio.gather(*tasks), undisturbed)


async def test_a_high_priority_request_over_http_does_not_wait_for_low_ones(client):
    """The queues of gateway and worker are full of low-priority requests."""
    fields = GREEDY | {"max_tokens": 60}
    low = [
        asyncio.create_task(client.ask(make_prompt(n), headers={"X-Priority": "low"}, **fields))
        for n in range(36)
    ]

    async def waits():
        return (await client.slots()).count("queued") > 20

    await until(waits)
    took_s = []
    for number in range(4):
        began_s = time.monotonic()
        await client.ask(f"{number}", headers={"X-Priority": "high"}, **GREEDY, max_tokens=1)
        took_s.append(time.monotonic() - began_s)
    left = sum(not task.done() for task in low)
    began_s = time.monotonic()
    answers = await asyncio.gather(*low)
    assert left > 10
    assert statistics.median(took_s) < (time.monotonic() - began_s) / 2
    assert all(answer.usage["completion_tokens"] == 60 for answer in answers)
