"""The Responses API through the whole gateway: create, count, cancel, resume."""

from __future__ import annotations

import asyncio

import pytest

from gateway.responses.context import RESPONSE_CONTEXT
from tests import spec
from tests.contract.harness import Harness
from tests.contract.response_client import LOOK, PATH, ask, call, create, read, without
from tests.response_stream import ResponseReader
from tests.wait import until


@pytest.mark.parametrize(
    "prompt", ["hi", "[think=2] hi", "[think=2] [tool=3] hi", "[tool=8] hi", "hi [hold=3]"]
)
async def test_streamed_and_whole_responses_are_equal(harness: Harness, prompt):
    await harness.start()
    whole = await create(harness, prompt, seed=7, tools=[LOOK])
    reader = await read(harness, prompt, seed=7, tools=[LOOK])
    assert without(reader.response) == without(whole)
    assert whole["id"].startswith("resp_")
    assert len(whole["id"]) == len("resp_") + 32


async def test_a_limit_makes_a_response_incomplete(harness: Harness):
    await harness.start()
    response = await create(harness, "[tokens=9] hi", max_output_tokens=3)
    assert response["status"] == response["output"][-1]["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["usage"]["output_tokens"] == 3
    reader = await read(harness, "[tokens=9] hi", max_output_tokens=3)
    assert reader.kinds[-1] == "response.incomplete"


async def test_a_tool_loop_with_output_sent_back_completes(harness: Harness):
    await harness.start()
    history = [{"role": "user", "content": "[think=1] [tool=3] look around"}]
    for turn in range(3):
        response = await create(harness, history, tools=[LOOK], seed=turn)
        history += response["output"]
        (made,) = [item for item in response["output"] if item["type"] == "function_call"]
        result = f"[tool={0 if turn == 2 else 3}] seen {turn}"
        history.append(
            {"type": "function_call_output", "call_id": made["call_id"], "output": result}
        )
    response = await create(harness, history, tools=[LOOK])
    assert [item["type"] for item in response["output"]] == ["reasoning", "message"]
    turns = harness.worker.submitted[-1].chat.messages
    assert [turn.role for turn in turns] == ["user", *["assistant", "tool"] * 3]
    assert all(turn.reasoning and turn.tool_calls for turn in turns if turn.role == "assistant")


async def test_aliases_without_v1_work(harness: Harness):
    await harness.start()
    status, made = await ask(harness, path="/responses")
    assert status == 200
    assert (await ask(harness, "a b", path="/responses/input_tokens"))[1]["input_tokens"] == 2
    assert (await call(harness, "GET", f"/responses/{made['id']}"))[1] == made
    assert (await call(harness, "POST", f"/responses/{made['id']}/cancel"))[0] == 200
    assert (await call(harness, "DELETE", f"/responses/{made['id']}"))[1]["deleted"]
    status, reply = await ask(harness, path="/responses/compact")
    assert (status, reply["error"]["code"]) == (400, "context_length_exceeded")


async def test_the_priority_of_a_request_reaches_the_worker(harness: Harness):
    await harness.start()
    await harness.session.post(PATH, json={"input": "x"}, headers={"X-Priority": "high"})
    assert harness.worker.submitted[-1].priority == 1


async def test_media_is_refused_if_the_model_lacks_it(harness: Harness):
    await harness.start()
    part = {"type": "input_image", "image_url": "http://127.0.0.1:1/x.png"}
    for path in (PATH, f"{PATH}/input_tokens", f"{PATH}/compact"):
        status, reply = await ask(harness, [{"role": "user", "content": [part]}], path=path)
        assert (status, reply["error"]["type"]) == (501, "not_supported_error")
    assert harness.worker.submitted == []


async def test_input_tokens_counts_the_history_too_and_runs_nothing(harness: Harness):
    await harness.start()
    made = await create(harness, "one two three [tokens=1]", seed=1)
    submitted = len(harness.worker.submitted)
    counted = {}
    for name, fields in (
        ("alone", {}),
        ("chained", {"previous_response_id": made["id"]}),
        ("instructed", {"instructions": "be very brief"}),
    ):
        status, reply = await ask(harness, "four five", path=f"{PATH}/input_tokens", **fields)
        assert status == 200
        assert spec.find_errors("openai", "TokenCountsResource", reply) == []
        counted[name] = reply["input_tokens"]
    assert counted["alone"] == 2
    assert counted["instructed"] == 5
    assert counted["chained"] >= 6
    assert len(harness.worker.submitted) == submitted
    status, reply = await ask(harness, path=f"{PATH}/input_tokens", top_p=3)
    assert (status, reply["error"]["param"]) == (400, "top_p")


async def test_a_waiting_response_is_opened_and_kept_alive(harness: Harness):
    await harness.start(start_timeout_s=0.1, sse_ping_interval_s=1)
    reader = await read(harness, "[accept=1.5] hi")
    assert reader.kinds[:3] == ["response.created", *["response.in_progress"] * 2]
    assert reader.close()["output_text"]
    refused = await read(harness, "[accept=0.4] [refuse=server_busy] hi")
    assert refused.kinds[2:] == ["error", "response.failed"]
    assert refused.error["code"] == "server_overloaded"


# ------------------------------------------------------------------------------ cancelling


async def begin(harness: Harness, prompt="hi [tokens=4000]", **fields):
    """Open a stream; return it and its reader once some text has arrived."""
    body = {"input": prompt, "stream": True, **fields}
    reply = await harness.session.post(PATH, json=body)
    reader = ResponseReader()
    while "response.output_text.delta" not in reader.kinds:
        reader.feed(await reply.content.readany())
    return reply, reader


@pytest.mark.parametrize("keeps", [True, False])
async def test_a_running_response_is_cancelled_by_its_id(harness: Harness, keeps):
    await harness.start()
    reply, reader = await begin(harness, store=keeps)
    url = f"{PATH}/{reader.response['id']}"
    status, cancelled = await call(harness, "POST", f"{url}/cancel")
    assert (status, cancelled["status"]) == (200, "cancelled")
    assert spec.find_errors("openai", "Response", cancelled) == []
    reader.feed(await reply.read())
    assert reader.kinds[-2:] == ["error", "response.failed"]
    assert (reader.error["code"], reader.response["status"]) == ("cancelled", "cancelled")
    assert reader.response["output_text"].startswith(cancelled["output_text"])
    assert cancelled["output_text"]
    await harness.idle()
    assert (await call(harness, "GET", url))[0] == (200 if keeps else 404)


async def test_a_disconnect_frees_the_slot_and_stores_nothing(harness: Harness):
    await harness.start()
    reply, reader = await begin(harness)
    reply.close()
    await harness.idle()
    assert harness.app[RESPONSE_CONTEXT].turns == {}
    assert (await call(harness, "GET", f"{PATH}/{reader.response['id']}"))[0] == 404


@pytest.mark.parametrize("prompt", ["x [think=20] [tokens=60]", "x [tool=30] [tokens=60]"])
async def test_a_resumed_response_equals_an_undisturbed_one(harness: Harness, prompt):
    await harness.start()
    wanted = (await read(harness, prompt, seed=5)).response
    reading = asyncio.create_task(read(harness, prompt, seed=5))
    await until(lambda: harness.worker.counters.decode_tokens > 75)
    await harness.worker.restart()
    assert without((await reading).response) == without(wanted)
    assert harness.worker.submitted[-1].attempt == 2
