"""Anthropic Messages through the whole gateway, with the official client as oracle."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import pytest

from tests.contract.harness import Harness
from tests.message_stream import MessageReader
from tests.wait import until

PATH = "/v1/messages"
BETA = f"{PATH}?beta=true"
LOOK = {"name": "look", "input_schema": {"type": "object", "properties": {"round": {}}}}


def ask(prompt: str, **fields: Any) -> dict[str, Any]:
    return {
        "model": "claude-sonnet-4-6",
        "max_tokens": 4096,
        "messages": [{"role": "user", "content": prompt}],
    } | fields


def connect(harness: Harness, **options: Any) -> anthropic.AsyncAnthropic:
    # Reading the system's certificates would take longer than most tests.
    http = anthropic.DefaultAsyncHttpxClient(verify=False)
    options = {"api_key": "none", "max_retries": 0, "http_client": http} | options
    return anthropic.AsyncAnthropic(
        base_url=harness.url, _strict_response_validation=True, **options
    )


@pytest.fixture
async def client(harness: Harness) -> AsyncIterator[anthropic.AsyncAnthropic]:
    await harness.start()
    async with connect(harness) as made:
        yield made


async def read(harness: Harness, prompt: str, path: str = PATH, **fields: Any) -> MessageReader:
    """Read a stream to its end."""
    reader = MessageReader()
    body = ask(prompt, stream=True, **fields)
    async with harness.session.post(path, json=body) as reply:
        assert reply.status == 200, await reply.text()
        async for data in reply.content.iter_any():
            reader.feed(data)
    return reader


async def post(harness: Harness, path: str, body: Any, **headers: str) -> tuple[int, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with harness.session.post(path, data=data, headers=headers) as reply:
        return reply.status, await reply.json()


async def collect(stream: AsyncIterator[Any]) -> list[Any]:
    return [event async for event in stream]


# ---------------------------------------------------------------------------- messages


@pytest.mark.parametrize("thinking", [{"type": "adaptive"}, {"type": "disabled"}])
async def test_streamed_and_whole_messages_are_equal(client, thinking):
    prompts = ("hi", "[tokens=40]", "[think=3] hi", "[hold=3] [tokens=7]", "[calls=1] [think=2]")
    for prompt in prompts:
        fields = ask(prompt, thinking=thinking, tools=[LOOK], extra_body={"seed": 7})
        whole = await client.messages.create(**fields)
        async with client.messages.stream(**fields) as stream:
            streamed = await stream.get_final_message()
        assert whole.content and whole.stop_reason
        for message in (whole, streamed):
            for block in message.content:
                assert not hasattr(block, "parsed_output") or block.parsed_output is None
        assert [block.to_dict() | {"id": ""} for block in streamed.content] == [
            block.to_dict() | {"id": ""} for block in whole.content
        ]
        assert (streamed.stop_reason, streamed.usage) == (whole.stop_reason, whole.usage)
        shows = any(block.type == "thinking" for block in whole.content)
        assert shows == ("think" in prompt and thinking["type"] == "adaptive")


async def test_aliases_and_the_beta_route_respond_the_same(harness: Harness, client):
    for path in (PATH, "/messages", BETA, "/messages?beta=true"):
        status, reply = await post(harness, path, ask("hi", seed=3))
        assert (status, reply["content"][0]["type"]) == (200, "text")
        assert reply["model"] == "fake"
    beta = await client.beta.messages.create(**ask("hi"), betas=["interleaved-thinking-2025-05-14"])
    assert beta.usage.output_tokens == 8


@pytest.mark.parametrize("path", ["/v1/messages/count_tokens", "/messages/count_tokens"])
async def test_tokens_are_counted_without_generation(harness: Harness, client, path):
    fields = ask("three words here", system="and two")
    fields.pop("max_tokens")
    counted = await client.messages.count_tokens(**fields)
    beta = await client.beta.messages.count_tokens(**fields)
    assert counted.input_tokens == beta.input_tokens == 5
    status, reply = await post(harness, path, fields)
    assert (status, reply["input_tokens"]) == (200, 5)
    assert not harness.worker.submitted
    message = await client.messages.create(**ask("three words here", system="and two"))
    assert message.usage.input_tokens == 5


async def test_max_tokens_zero_fills_the_cache_without_an_answer(client):
    message = await client.messages.create(**ask("hi [tokens=40]", max_tokens=0))
    assert (message.content, message.stop_reason) == ([], "max_tokens")
    assert (message.usage.input_tokens, message.usage.output_tokens) == (2, 0)


async def test_pings_are_events_once_the_message_has_started(harness: Harness):
    harness.add_worker(step_s=0.1)
    await harness.start(sse_ping_interval_s=1)
    reader = await read(harness, "hi [prefill=12] [tokens=2]")
    assert reader.close()["stop_reason"] == "end_turn"
    assert reader.pings >= 1
    assert reader.comments == 0


async def test_a_waiting_message_is_opened_by_a_comment(harness: Harness):
    await harness.start(start_timeout_s=0.1)
    reader = await read(harness, "[accept=0.4] hi")
    assert reader.comments == 1
    assert reader.close()["content"][0]["text"]


# ---------------------------------------------------------------------------- tools


async def test_the_tool_runner_of_the_client_completes_a_loop(harness: Harness, client):
    rounds = []

    @anthropic.beta_async_tool
    async def look(round: int, text: str) -> str:  # noqa: A002 - the model's word
        """Look something up.

        Args:
            round: how often by now.
            text: what at.
        """
        assert text == 'a "b" ü'
        rounds.append(round)
        return f"seen {round}"

    for stream in (False, True):
        rounds.clear()
        runner = client.beta.messages.tool_runner(
            **ask("[calls=3] [think=2]", thinking={"type": "adaptive"}), tools=[look], stream=stream
        )
        message = await runner.until_done()
        assert rounds == [1, 2, 3]
        assert message.stop_reason == "end_turn"
        assert [block.type for block in message.content] == ["thinking", "text"]
    history = harness.worker.submitted[-1].chat.messages
    assert [turn.role for turn in history] == ["user", *["assistant", "tool"] * 3]
    assert all(turn.reasoning for turn in history if turn.role == "assistant")
    ids = [turn.tool_call_id for turn in history if turn.role == "tool"]
    assert ids == [turn.tool_calls[0].id for turn in history if turn.role == "assistant"]


async def test_a_streamed_call_arrives_piece_by_piece(harness: Harness):
    await harness.start()
    reader = await read(harness, "[calls=1]", tools=[LOOK])
    (block,) = reader.close()["content"]
    assert json.loads(block["arguments"]) == {"round": 1, "text": 'a "b" ü'}
    assert block["id"].startswith("toolu_")
    assert reader.message["stop_reason"] == "tool_use"


async def test_hidden_thinking_is_kept_in_a_tool_loop(harness: Harness, client):
    def think(**how: str) -> dict[str, Any]:
        prompt = "[calls=1] [think=3]"
        return ask(prompt, thinking=how, tools=[LOOK], extra_body={"seed": 5})

    shown = await client.messages.create(**think(type="adaptive"))
    hidden = think(type="adaptive", display="omitted")
    async with client.messages.stream(**hidden) as stream:
        first = await stream.get_final_message()
    thought, call = first.content
    assert (thought.thinking, call.type) == ("", "tool_use")
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "seen"}
    hidden["messages"] += [first.to_param(), {"role": "user", "content": [result]}]
    await client.messages.create(**hidden)
    reasoning = harness.worker.submitted[-1].chat.messages[1].reasoning
    assert reasoning == shown.content[0].thinking != ""


# ---------------------------------------------------------------------------- failures


async def test_a_refusal_has_anthropics_form_and_a_request_id(harness: Harness, client):
    refused = ask("[refuse=context_length_exceeded]")
    for stream in (False, True):
        with pytest.raises(anthropic.BadRequestError) as caught:
            await client.messages.create(**refused, stream=stream)
        assert caught.value.type == "invalid_request_error"
        assert caught.value.request_id.startswith("req_")
        assert caught.value.body["request_id"] == caught.value.request_id
    greedy = ask("x", thinking={"type": "enabled", "budget_tokens": 5000})
    with pytest.raises(anthropic.BadRequestError, match=r"thinking\.budget_tokens"):
        await client.messages.create(**greedy)
    with pytest.raises(anthropic.ServiceUnavailableError) as caught:
        await client.messages.create(**ask("[refuse=server_busy]"))
    assert caught.value.type == "overloaded_error"


async def test_an_unknown_path_below_a_route_has_the_form_of_that_route(harness: Harness):
    await harness.start()
    status, reply = await harness.get("/v1/messages/none/at/all")
    assert (status, reply["type"], reply["error"]["type"]) == (404, "error", "not_found_error")
    status, reply = await harness.get("/v1/chat/completions/none")
    assert (status, "type" in reply, reply["error"]["param"]) == (404, False, None)


async def test_errors_without_a_handler_have_the_same_form(harness: Harness):
    await harness.start(api_key=("k",), max_body_bytes=2000)
    key = {"x-api-key": "k"}
    cases = [
        (ask("x"), {}, 401, "authentication_error"),
        (ask("x"), {"x-api-key": "wrong"}, 401, "authentication_error"),
        (b"{", key, 400, "invalid_request_error"),
        (b"[]", key, 400, "invalid_request_error"),
        (ask("x" * 2000), key, 413, "request_too_large"),
        (ask("hi"), {"Authorization": "Bearer k", "anthropic-version": "2099-01-01"}, 200, None),
    ]
    for path in (BETA, "/messages", "/v1/messages/count_tokens"):
        for body, headers, status, kind in cases:
            found, reply = await post(harness, path, body, **headers)
            assert found == status, reply
            assert reply.get("error", {}).get("type") == kind
            assert kind is None or reply["type"] == "error"
    async with harness.session.get(PATH, headers=key) as reply:
        assert (reply.status, reply.headers["Allow"]) == (405, "POST")
        assert (await reply.json())["error"]["type"] == "invalid_request_error"


async def test_a_permanent_refusal_is_not_retried(harness: Harness):
    await harness.start()
    image = {"type": "image", "source": {"type": "url", "url": "http://127.0.0.1:1/x.png"}}
    async with connect(harness, max_retries=2) as client:
        with pytest.raises(anthropic.APIStatusError, match="no image tower") as caught:
            await client.messages.create(**ask([image]))
        assert caught.value.status_code == 501
        assert caught.value.response.request.headers["x-stainless-retry-count"] == "0"
        assert not harness.worker.submitted


async def test_a_failure_in_the_stream_is_an_event_that_the_client_raises(harness: Harness):
    harness.add_worker(step_s=0.01)
    await harness.start(timeout_s=1)
    async with connect(harness) as client:
        stream = await client.messages.create(**ask("hi [tokens=4000]"), stream=True)
        with pytest.raises(anthropic.APIStatusError) as caught:
            await collect(stream)
    assert caught.value.type == "timeout_error"
    await harness.idle()


async def test_a_resumed_message_starts_once(harness: Harness):
    await harness.start()
    prompt = "[think=5] [tokens=90]"
    fields = {"seed": 3, "thinking": {"type": "adaptive"}}
    wanted = (await read(harness, prompt, **fields)).close()
    for reading in (read(harness, prompt, **fields), read(harness, prompt, BETA, **fields)):
        task = asyncio.create_task(reading)
        before = harness.worker.counters.decode_tokens
        await until(lambda: harness.worker.counters.decode_tokens > before + 20)  # noqa: B023
        await harness.worker.restart()
        assert not task.done()
        found = (await task).close()
        assert (found["content"], found["usage"]) == (wanted["content"], wanted["usage"])


async def test_a_disconnect_during_a_tool_call_frees_the_slot(harness: Harness):
    await harness.start()
    body = ask("[tool=4000] [tokens=4000]", stream=True)
    async with harness.session.post(PATH, json=body) as reply:
        await reply.content.readuntil(b'"tool_use"')
    await until(lambda: bool(harness.worker.cancelled))
    await harness.idle()
