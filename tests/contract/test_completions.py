"""Text completions through the whole gateway."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest

from gateway.routes.completions import _render
from shared.pb import text_pb2 as pb
from tests.contract.harness import Harness
from tests.contract.openai_client import connect
from tests.wait import until

PATH = "/v1/completions"


@pytest.fixture
async def client(harness: Harness):
    await harness.start()
    async with connect(harness) as made:
        yield made.completions


async def read(client, prompt: str, **fields):
    """Return the text of a stream and its last chunk."""
    options = {"include_usage": True}
    opened = await client.create(
        model="fake", prompt=prompt, stream=True, stream_options=options, **fields
    )
    *chunks, last = [chunk async for chunk in opened]
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert all(c.choices[0].delta.get("text", "") == c.choices[0].text for c in chunks)
    return "".join(chunk.choices[0].text for chunk in chunks), chunks[-1], last


async def test_streamed_and_whole_answers_are_equal(harness: Harness, client):
    for prompt in ("hi", "", "hi [tokens=40]", "[think=3] hi", "hi [hold=3] [tokens=7]"):
        whole = await client.create(model="fake", prompt=prompt, seed=7)
        text, end, last = await read(client, prompt, seed=7)
        (choice,) = whole.choices
        assert (text, end.choices[0].finish_reason) == (choice.text, choice.finish_reason)
        assert (last.choices, last.usage) == ([], whole.usage)
        assert harness.worker.submitted[-1].text == prompt


async def test_several_prompts_become_choices_in_their_order(client):
    prompts = [f"hi [tokens={count}]" for count in (9, 3, 1, 12)]
    alone = [await client.create(model="fake", prompt=prompt, seed=7) for prompt in prompts]
    whole = await client.create(model="fake", prompt=prompts, seed=7)
    assert [choice.index for choice in whole.choices] == [0, 1, 2, 3]
    texts = [answer.choices[0].text for answer in alone]
    assert [choice.text for choice in whole.choices] == texts
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert getattr(whole.usage, name) == sum(getattr(a.usage, name) for a in alone)

    options = {"include_usage": True}
    opened = await client.create(
        model="fake", prompt=prompts, seed=7, stream=True, stream_options=options
    )
    *chunks, last = [chunk async for chunk in opened]
    assert (last.choices, last.usage) == ([], whole.usage)
    streamed = ["", "", "", ""]
    for chunk in chunks:
        streamed[chunk.choices[0].index] += chunk.choices[0].text
    assert streamed == texts
    ends = [c.choices[0].index for c in chunks if c.choices[0].finish_reason]
    assert sorted(ends) == [0, 1, 2, 3]


async def test_prompts_may_be_token_ids(harness: Harness, client):
    await client.create(model="fake", prompt=[[1, 2], [3]])
    assert sorted(list(r.tokens.ids) for r in harness.worker.submitted[-2:]) == [[1, 2], [3]]


async def test_the_failure_of_a_prompt_ends_them_all(harness: Harness):
    await harness.start()
    prompts = ["hi [tokens=100000]", "[fail=internal] hi"]
    for stream in (False, True):
        body = json.dumps({"prompt": prompts, "stream": stream, "max_tokens": 100_000}).encode()
        async with harness.session.post(PATH, data=body) as reply:
            assert reply.status == (200 if stream else 500)
            assert '"error"' in await reply.text()
    # Each time the other one is cancelled at the worker.
    await until(lambda: len(harness.worker.cancelled) == 2)


async def test_a_client_that_goes_ends_all_prompts_however_much_is_queued():
    async def write():
        while True:
            yield [pb.Event(delta=pb.Delta(text="word"))]
            await asyncio.sleep(0)

    renderer = SimpleNamespace(feed_choice=lambda *_: b"data")
    stream = _render([write(), write()], renderer)
    assert await anext(stream) == b"data"
    # Both have filled the queue by now.
    await asyncio.sleep(0.05)
    async with asyncio.timeout(5):
        await stream.aclose()


async def test_log_probabilities_are_lists_of_one_entry_per_token(client):
    whole = await client.create(model="fake", prompt="hi", seed=7, logprobs=3)
    (choice,) = whole.choices
    assert "".join(choice.logprobs.tokens) == choice.text
    assert len(choice.logprobs.text_offset) == len(choice.logprobs.token_logprobs) == 8
    assert choice.text[choice.logprobs.text_offset[5] :].startswith(choice.logprobs.tokens[5])


async def test_errors_have_the_envelope_of_the_reference(harness: Harness):
    await harness.start()
    for field, fields in (("prompt", {"prompt": " "}), ("logprobs", {"logprobs": 9})):
        status, reply = await harness.ask(PATH, json.dumps({"prompt": "x", **fields}).encode())
        assert (status, reply["error"]["type"]) == (400, "invalid_request_error")
        assert (reply["error"]["param"], reply["error"]["code"]) == (field, None)
    for stream in (False, True):
        body = {"prompt": "[refuse=server_busy]", "stream": stream}
        status, reply = await harness.ask(PATH, json.dumps(body).encode())
        assert (status, reply["error"]["type"]) == (503, "server_busy")


async def test_an_answer_is_resumed_after_a_lost_worker(harness: Harness, client):
    wanted = await read(client, "one [tokens=60]", seed=5)
    reading = asyncio.create_task(read(client, "one [tokens=60]", seed=5))
    await until(lambda: harness.worker.counters.decode_tokens > 80)
    await harness.worker.restart()
    text, _, last = await reading
    assert (text, last.usage) == (wanted[0], wanted[2].usage)
    assert harness.worker.submitted[-1].attempt == 2


async def test_a_disconnect_frees_the_slot(harness: Harness, client):
    opened = await client.create(model="fake", prompt="hi [tokens=3000]", stream=True)
    await anext(opened)
    await opened.close()
    await harness.idle()
    assert len(harness.worker.cancelled) == 1
