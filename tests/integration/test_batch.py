"""The answer to a request does not depend on the other requests in the batch."""

from __future__ import annotations

import asyncio

import pytest

from tests.client import GREEDY, assert_same
from tests.integration.conftest import FAMILIES
from tests.prompt import MIX, make_prompt
from tests.wait import until
from tests.worker import link

# Longer than the sliding window of 32 tokens, whatever the prompt.
TOKENS = 40
ANY_CACHE = pytest.mark.parametrize("family", ["llama", "sliding", "recurrent"])


async def test_eight_streams_fill_one_batch(client):
    prompts = [make_prompt(number) for number in range(8)]
    fields = GREEDY | {"max_tokens": 100, "cache_prompt": False}
    alone = [await client.ask(prompt, **fields) for prompt in prompts]

    streams = [asyncio.create_task(client.ask_stream(prompt, **fields)) for prompt in prompts]
    reports = []
    while not all(stream.done() for stream in streams):
        reports.append(await client.get("/health"))
        await asyncio.sleep(0.01)
    assert_same([await stream for stream in streams], alone)

    full = [report for status, report in reports if status == 503]
    assert full
    assert all(report["status"] == "no slot available" for report in full)
    assert all(report["batch"]["active_sequences"] == 8 for report in full)
    assert all(report["batch"]["active_sequences"] < 8 for s, report in reports if s == 200)
    await until(client.is_idle, 3)
    status, report = await client.get("/health")
    assert (status, report["status"]) == (200, "ok")


@pytest.mark.parametrize("family", FAMILIES)
async def test_sampling_settings_give_the_same_text_alone_and_in_a_batch(client, family):
    client = client.having(model=family, max_tokens=TOKENS, cache_prompt=False)
    requests = [(make_prompt(10 + number), fields) for number, fields in enumerate(MIX)]
    alone = [await client.ask(prompt, **fields) for prompt, fields in requests]
    assert len({answer.text for answer in alone}) == len(alone)
    assert any(answer.logprobs for answer in alone)

    together = [client.ask_stream(prompt, **fields) for prompt, fields in requests]
    assert_same(await asyncio.gather(*together), alone)


@ANY_CACHE
async def test_a_greedy_answer_is_the_same_alone_and_beside_four_others(client, family):
    client = client.having(model=family, cache_prompt=False)
    prompt, fields = make_prompt(20), GREEDY | {"max_tokens": TOKENS}
    alone = await client.ask(prompt, **fields)
    for count in range(3):
        others = [
            client.ask(make_prompt(30 + 4 * count + n), seed=n, max_tokens=20 + 10 * n)
            for n in range(4)
        ]
        answer, *_ = await asyncio.gather(client.ask(prompt, **fields), *others)
        assert answer == alone


@ANY_CACHE
async def test_a_preempted_request_continues_with_the_same_text(fleet, client, family):
    """Eight low-priority streams hold all slots when four high-priority requests arrive."""
    client = client.having(model=family, max_tokens=200, cache_prompt=False)
    requests = [(make_prompt(50 + number), MIX[number % 3]) for number in range(8)]
    undisturbed = await asyncio.gather(*(client.ask(p, **fields) for p, fields in requests))

    async with link(fleet.address(FAMILIES.index(family))) as worker:
        before = worker.beat.counters.preemptions
        low = [
            asyncio.create_task(client.ask_stream(prompt, headers={"X-Priority": "low"}, **fields))
            for prompt, fields in requests
        ]
        await until(lambda: client.seen_chunks > 40)
        high = [
            client.ask("now", headers={"X-Priority": " HIGH "}, temperature=0, max_tokens=4)
            for _ in range(4)
        ]
        await asyncio.gather(*high)
        assert not any(stream.done() for stream in low)
        assert_same(await asyncio.gather(*low), undisturbed)
        beat = await worker.fresh_beat()
        # A low-priority stream may have ended just before a high-priority request arrived.
        assert 1 <= beat.counters.preemptions - before <= 4
        assert beat.slots_active == beat.queue_depth == 0
