"""Models with quantised keys and values, and quantised weights."""

from __future__ import annotations

import asyncio

import pytest

from shared.lifecycle import EXIT_PERMANENT
from tests import checkpoint
from tests.client import GREEDY, assert_same, connect
from tests.prompt import make_prompt
from tests.server import Server
from tests.wait import until


@pytest.fixture(params=[8, 4])
async def client(limited, request):
    async with connect(limited.url, model=f"kv{request.param}", **GREEDY, max_tokens=20) as client:
        yield client
        await until(client.is_idle, 3)


async def test_requests_are_served_one_at_a_time_with_equal_answers(client):
    prompts = [make_prompt(number) for number in range(4)]
    alone = [await client.ask(prompt, cache_prompt=False) for prompt in prompts]
    holder = asyncio.create_task(client.ask_stream(make_prompt(9), max_tokens=300))
    tasks = [asyncio.create_task(client.ask_stream(p, cache_prompt=False)) for p in prompts]
    # One slot, and the requests that wait for it.
    await until(lambda: has_slots(client, "decoding", *["queued"] * 4))
    assert_same(await asyncio.gather(*tasks), alone)
    await holder


async def has_slots(client, *states):
    return await client.slots() == list(states)


async def test_a_cached_prompt_gives_the_same_text(client):
    conversation = [
        {"role": "system", "content": make_prompt(5, 60)},
        {"role": "user", "content": make_prompt(6)},
    ]
    cold = await client.ask("", messages=conversation, cache_prompt=False)
    for cached in (False, True):
        warm = await client.ask("", messages=conversation)
        assert warm.text == cold.text
        assert (warm.usage["prompt_tokens_details"]["cached_tokens"] > 30) is cached


def test_the_log_says_that_requests_are_not_batched(limited):
    lines = [line for line in limited.log.read_text().splitlines() if "can't be batched" in line]
    assert len(lines) == 2
    assert all("one sequence at a time" in line for line in lines)


def test_heads_that_can_not_be_quantised_are_refused_without_a_restart(make_folder):
    """Heads of 16 are smaller than a quantisation group of 64."""
    server = Server(make_folder(), "-m", str(checkpoint.build("llama")), "--kv-bits", "8")
    try:
        assert server.process.wait(60) == EXIT_PERMANENT
    finally:
        server.close()
    text = server.log.read_text()
    assert text.count("error: ") == 1, text
    assert "can't be run with --kv-bits 8: [quantize]" in text
    assert "restart 1 in" not in text
