"""The starter model through the whole server, checked with the official client."""

from __future__ import annotations

import asyncio

import openai
import pytest

from tests.client import GREEDY, assert_same, connect
from tests.models.conftest import NAME
from tests.wait import until

CAPITAL = [{"role": "user", "content": "What is the capital of France?"}]
FIELDS = {"model": NAME, "messages": CAPITAL, "temperature": 0}


@pytest.fixture
def sync_client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
async def async_client(server):
    async with openai.AsyncOpenAI(
        base_url=f"{server.url}/v1", api_key="none", max_retries=0
    ) as client:
        yield client


def test_the_capital_of_france_is_paris(sync_client):
    completion = sync_client.chat.completions.create(**FIELDS, max_tokens=12)
    (choice,) = completion.choices
    assert "Paris" in choice.message.content
    assert completion.model == NAME
    usage = completion.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def test_a_text_completion_continues_the_prompt(sync_client):
    fields = {"model": NAME, "prompt": "The capital of France is", "temperature": 0}
    (choice,) = sync_client.completions.create(**fields, max_tokens=2, logprobs=1).choices
    assert choice.text.startswith(" Paris")
    assert choice.logprobs.tokens[0] == " Paris"


async def test_tokens_equal_those_of_llama_server(server):
    """Recorded from a llama-server with the same model."""
    ids = [19556, 24488, 233, 15107, 235, 119, 321, 231, 10813, 235, 119, 321, 231, 10813, 235]
    ids += [117, 905]
    async with connect(server.url) as client:
        body = {"content": "Hello ď 👩‍👩‍👧 world"}
        async with client.session.post("/tokenize", json=body) as reply:
            assert await reply.json() == {"tokens": ids}
        async with client.session.post("/detokenize", json={"tokens": [1, 2, 3]}) as reply:
            assert await reply.json() == {"content": "<|im_start|><|im_end|><repo_name>"}


async def test_a_stream_gives_the_same_text_and_usage(sync_client, async_client):
    whole = sync_client.chat.completions.create(**FIELDS, max_tokens=12)
    options = {"include_usage": True}
    stream = await async_client.chat.completions.create(
        **FIELDS, max_tokens=12, stream=True, stream_options=options
    )
    chunks = [chunk async for chunk in stream]
    choices = [choice for chunk in chunks for choice in chunk.choices]
    text = "".join(choice.delta.content or "" for choice in choices)
    assert text == whole.choices[0].message.content
    reasons = [choice.finish_reason for choice in choices if choice.finish_reason]
    assert reasons == [whole.choices[0].finish_reason]
    usage = chunks[-1].usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (
        whole.usage.prompt_tokens,
        whole.usage.completion_tokens,
    )


async def test_streams_of_a_killed_worker_continue_with_the_same_text(server):
    prompts = ["Name three colours.", "Count to ten.", "What is rain?", "Say hello in French."]
    settings = [GREEDY, GREEDY, {"seed": 1, "top_k": 40}, {"seed": 2, "temperature": 1.0}]
    async with connect(server.url, max_tokens=24, cache_prompt=False) as client:

        def ask_all():
            rows = zip(prompts, settings, strict=True)
            return [asyncio.create_task(client.ask_stream(p, **f)) for p, f in rows]

        undisturbed = await asyncio.gather(*ask_all())
        due = client.seen_chunks + 30
        streams = ask_all()
        await until(lambda: client.seen_chunks >= due)
        server.kill_worker()
        assert not any(stream.done() for stream in streams)
        assert_same(await asyncio.gather(*streams), undisturbed)
        await until(client.is_idle, 5)
