"""The context of a slot limits prompt and answer."""

from __future__ import annotations

import asyncio

import pytest

from tests.client import GREEDY, assert_same, connect
from tests.integration.conftest import CONTEXT_TOKENS
from tests.prompt import make_prompt
from tests.wait import until


@pytest.fixture
async def narrow(limited):
    async with connect(limited.url, model="narrow", **GREEDY) as client:
        yield client
        await until(client.is_idle, 3)


async def test_the_context_is_divided_among_the_slots(narrow):
    _, health = await narrow.get("/health")
    assert health["context_size"] == CONTEXT_TOKENS
    assert health["batch"]["max_batch_size"] == 4
    _, slots = await narrow.get("/slots")
    assert [slot["context_size"] for slot in slots] == [CONTEXT_TOKENS] * 4


@pytest.mark.parametrize("streams", [True, False])
async def test_a_prompt_longer_than_the_context_is_refused(narrow, streams):
    status, body = await narrow.post("x" * CONTEXT_TOKENS, stream=streams)
    assert status == 400
    error = body["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "context_length_exceeded")
    assert str(CONTEXT_TOKENS) in error["message"]


async def test_an_answer_ends_with_the_context(narrow):
    for limit in (100_000, 2**40, -1, None):
        answer = await narrow.ask("x" * (CONTEXT_TOKENS - 60), max_tokens=limit)
        assert answer.finish_reason == "length"
        assert answer.usage["total_tokens"] == CONTEXT_TOKENS


async def test_a_long_prompt_neither_stops_a_stream_nor_changes_its_text(client):
    """It is prefilled in chunks, between decode steps."""
    client = client.having(**GREEDY, cache_prompt=False)
    long, short = make_prompt(1, 2000), make_prompt(2)
    alone = [await client.ask(long, max_tokens=8), await client.ask(short, max_tokens=150)]

    stream = asyncio.create_task(client.ask_stream(short, max_tokens=150))
    await until(lambda: client.seen_chunks > 10)
    seen_chunks = client.seen_chunks
    answer = await client.ask(long, max_tokens=8)
    # Eight while the long one decoded, the others while it was prefilled.
    assert client.seen_chunks - seen_chunks > 10
    assert_same([answer, await stream], alone)
