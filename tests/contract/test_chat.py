"""Chat completions through the whole gateway."""

from __future__ import annotations

import asyncio

import openai
import pytest

from tests.contract.harness import CHAT, Harness, body, read_text
from tests.contract.openai_client import connect
from tests.wait import until


async def test_streamed_and_whole_answers_are_equal(harness: Harness):
    await harness.start()
    for prompt in ("hi", "hi [tokens=40]", "[think=3] hi", "hi [hold=3] [tokens=7]"):
        chunks = [
            c async for c in harness.stream(prompt, seed=7, stream_options={"include_usage": True})
        ]
        whole = await harness.answer(prompt, seed=7)
        assert read_text(chunks) == whole["choices"][0]["message"]["content"]
        assert chunks[-2]["usage"] == whole["usage"]
        assert chunks[-2]["choices"] == []


async def test_an_absent_seed_is_random(harness: Harness):
    await harness.start()
    texts = {await harness.text("hi [tokens=30]") for _ in range(3)}
    assert len(texts) == 3
    assert len({await harness.text("hi [tokens=30]", seed=-1) for _ in range(3)}) == 3
    assert len({await harness.text("hi [tokens=30]", seed=3) for _ in range(3)}) == 1


async def test_the_alias_without_v1_works(harness: Harness):
    await harness.start()
    async with harness.session.post("/chat/completions", data=body("hi")) as reply:
        assert reply.status == 200


async def test_a_refusal_of_the_worker_is_a_status(harness: Harness):
    await harness.start()
    for stream in (False, True):
        status, reply = await harness.post("[refuse=context_length_exceeded]", stream=stream)
        assert status == 400
        assert reply["error"]["code"] == "context_length_exceeded"
    status, reply = await harness.post("[refuse=not_supported]", stream=True)
    assert (status, reply["error"]["type"]) == (501, "not_supported_error")
    assert harness.worker.cancelled == []
    await harness.idle()


async def test_one_watch_serves_all_requests_of_a_gateway(harness: Harness):
    await harness.start()
    await asyncio.gather(*(harness.text(f"x {index}") for index in range(10)))
    assert len(harness.worker.watched) == 1
    assert {request.gateway_id for request in harness.worker.submitted} == set(
        harness.worker.watched
    )
    assert len({request.key for request in harness.worker.submitted}) == 10


async def test_headers_of_a_stream_disable_buffering(harness: Harness):
    await harness.start()
    async with harness.session.post(CHAT, data=body("hi", stream=True)) as reply:
        assert reply.headers["Content-Type"] == "text/event-stream"
        assert reply.headers["Cache-Control"] == "no-cache"
        assert reply.headers["X-Accel-Buffering"] == "no"
        assert (await reply.read()).endswith(b"data: [DONE]\n\n")


async def test_tokens_arrive_one_by_one(harness: Harness):
    harness.add_worker(step_s=0.1)
    await harness.start()
    times = [
        asyncio.get_running_loop().time()
        async for chunk in harness.stream("hi [tokens=10]")
        if chunk != "[DONE]" and chunk["choices"][0]["delta"].get("content")
    ]
    assert len(times) == 10
    assert times[-1] - times[0] > 0.3


async def test_a_silent_stream_gets_pings(harness: Harness):
    harness.add_worker(step_s=0.1)
    await harness.start(sse_ping_interval_s=1)
    data = body("hi [prefill=12] [tokens=2]", stream=True)
    async with harness.session.post(CHAT, data=data) as reply:
        raw = await reply.read()
    assert raw.count(b": ping\n\n") >= 1
    assert raw.endswith(b"data: [DONE]\n\n")


async def test_after_the_start_timeout_failures_are_reported_in_the_stream(
    harness: Harness,
):
    await harness.start(start_timeout_s=0.1)
    chunks = [c async for c in harness.stream("[accept=0.4] [refuse=invalid_request]")]
    assert chunks[0]["choices"][0]["finish_reason"] == "error"
    assert chunks[0]["error"]["type"] == "invalid_request_error"
    assert chunks[1:] == ["[DONE]"]
    assert await harness.text("[accept=0.4] hi")


@pytest.mark.parametrize(("field", "alias"), [("reasoning", True), ("none", False)])
async def test_the_reasoning_alias_is_a_setting(harness: Harness, field, alias):
    await harness.start(reasoning_alias_field=field)
    message = (await harness.answer("[think=3] hi"))["choices"][0]["message"]
    assert message["reasoning_content"]
    assert ("reasoning" in message) is alias


@pytest.mark.parametrize(("served", "status"), [(True, 200), (False, 400)])
async def test_json_object_is_a_setting(harness: Harness, served, status):
    await harness.start(json_object=served)
    form = {"type": "json_object"}
    assert (await harness.post("hi", response_format=form))[0] == status


async def test_priority_and_arrival_reach_the_worker(harness: Harness):
    await harness.start()
    for header in (" HIGH ", "low", "urgent"):
        await harness.post("hi", headers={"X-Priority": header})
    assert [request.priority for request in harness.worker.submitted] == [1, 3, 2]
    arrivals = [request.arrival_ns for request in harness.worker.submitted]
    assert arrivals == sorted(arrivals)
    assert all(0 < request.timeout_ms <= 3_600_000 for request in harness.worker.submitted)


async def test_high_priority_overtakes_low_in_the_gateway(harness: Harness):
    harness.add_worker(slots=1, step_s=0.01)
    await harness.start()
    order = []

    async def ask(name: str, priority: str) -> None:
        await harness.answer(f"{name} [tokens=10]", headers={"X-Priority": priority})
        order.append(name)

    low = [asyncio.create_task(ask(f"low{index}", "low")) for index in range(8)]
    await until(lambda: harness.context.registry.default().admission.waiting == 5)
    high = asyncio.create_task(ask("high", "high"))
    await asyncio.gather(high, *low)
    assert order.index("high") <= 2
    await harness.idle()


async def test_a_request_ends_at_its_time_limit(harness: Harness):
    harness.add_worker(step_s=0.01)
    await harness.start(timeout_s=1)
    status, reply = await harness.post("hi [tokens=4000]")
    assert (status, reply["error"]["type"]) == (504, "server_timeout")
    chunks = [chunk async for chunk in harness.stream("hi [tokens=4000]")]
    assert chunks[-2]["error"]["type"] == "server_timeout"
    await harness.idle()


async def test_media_is_refused_before_it_is_fetched(
    harness: Harness,
):
    await harness.start()
    part = {"type": "image_url", "image_url": {"url": "http://127.0.0.1:1/x.png"}}
    fields = {"messages": [{"role": "user", "content": [part]}]}
    async with harness.session.post(CHAT, json=fields) as reply:
        assert reply.status == 501
        error = (await reply.json())["error"]
    assert error["type"] == "not_supported_error"
    assert error["message"].startswith(
        "image input is not supported - hint: the loaded checkpoint 'fake' has no image tower"
    )
    assert harness.worker.submitted == []


@pytest.fixture
async def client(harness: Harness):
    await harness.start()
    async with connect(harness) as made:
        yield made


async def test_the_openai_client_reads_whole_answers(client):
    messages = [{"role": "user", "content": "hi [think=2] [tool=3]"}]
    reply = await client.chat.completions.create(model="fake", messages=messages, seed=1)
    [call] = reply.choices[0].message.tool_calls
    assert call.function.name == "look"
    assert call.function.arguments
    assert reply.choices[0].finish_reason == "tool_calls"
    assert reply.usage.completion_tokens == 8
    assert [model.id for model in (await client.models.list()).data] == ["fake"]


async def test_the_openai_client_accumulates_streams(client):
    messages = [{"role": "user", "content": "hi [think=2] [tool=3]"}]
    whole = await client.chat.completions.create(model="fake", messages=messages, seed=1)
    tools = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    async with client.chat.completions.stream(
        model="fake", messages=messages, seed=1, tools=tools
    ) as stream:
        async for _ in stream:
            pass
        streamed = await stream.get_final_completion()
    message, wanted = streamed.choices[0].message, whole.choices[0].message
    assert message.content == wanted.content
    assert message.tool_calls[0].function.arguments == wanted.tool_calls[0].function.arguments


async def test_the_openai_client_raises_the_right_errors(client):
    with pytest.raises(openai.BadRequestError, match="non-empty message"):
        await client.chat.completions.create(model="fake", messages=[])
    with pytest.raises(openai.NotFoundError):
        await client.batches.retrieve("batch_1")
    messages = [{"role": "user", "content": "[refuse=internal]"}]
    completions = client.with_options(max_retries=0).chat.completions
    with pytest.raises(openai.InternalServerError, match="script"):
        await completions.create(model="fake", messages=messages)


async def test_the_openai_client_raises_a_failure_inside_a_stream(harness: Harness):
    harness.add_worker(step_s=0.05)
    await harness.start(timeout_s=1)
    messages = [{"role": "user", "content": "hi [tokens=4000]"}]
    async with connect(harness) as client:
        stream = await client.chat.completions.create(model="x", messages=messages, stream=True)
        assert (await anext(stream)).choices[0].delta.role == "assistant"
        with pytest.raises(openai.APIError) as caught:
            [_ async for _ in stream]
    assert caught.value.type == "server_timeout"
    assert len(harness.worker.submitted) == 1
