"""llama-server's own routes through the whole gateway."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.contract.harness import Harness
from tests.wait import until

PATH = "/completion"


def dump(**fields: Any) -> bytes:
    return json.dumps({"prompt": "hi", **fields}).encode()


async def ask(harness: Harness, **fields: Any) -> dict[str, Any]:
    status, reply = await harness.ask(PATH, dump(**fields))
    assert status == 200, reply
    return reply


async def stream(harness: Harness, **fields: Any) -> list[dict[str, Any]]:
    """Return the events of a stream without comments."""
    async with harness.session.post(PATH, data=dump(stream=True, **fields)) as reply:
        assert reply.headers["Content-Type"] == "text/event-stream"
        data = (await reply.read()).decode()
    lines = [line for line in data.split("\n\n")[:-1] if line.startswith("data: ")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


@pytest.mark.parametrize("prompt", ["hi", "", [5, 6], ["x [tokens=40]", 7], "[hold=3] x"])
async def test_streamed_and_whole_answers_are_equal(harness: Harness, prompt):
    await harness.start()
    whole = await ask(harness, prompt=prompt, seed=7, return_tokens=True)
    *events, last = await stream(harness, prompt=prompt, seed=7)
    assert all(not event["stop"] for event in events)
    assert "".join(event["content"] for event in events) == whole["content"]
    assert [token for event in events for token in event["tokens"]] == whole["tokens"]
    assert (last["stop"], last["content"], last["tokens"]) == (True, "", [])
    told = ("prompt", "stop_type", "tokens_predicted", "tokens_evaluated", "id_slot")
    assert [last[name] for name in told] == [whole[name] for name in told]


async def test_both_paths_are_native(harness: Harness):
    await harness.start()
    for path in ("/completion", "/completions"):
        status, reply = await harness.ask(path, dump())
        assert (status, reply["stop_type"]) == (200, "eos")


async def test_errors_have_the_envelope_of_the_reference(harness: Harness):
    await harness.start()
    status, reply = await harness.ask(PATH, dump(n_predict=-5))
    error = reply["error"]
    assert (status, error["type"], error["code"]) == (400, "invalid_request_error", None)
    assert error["param"] == "n_predict"
    for streams in (False, True):
        status, reply = await harness.ask(PATH, dump(prompt="[refuse=server_busy]", stream=streams))
        assert (status, reply["error"]["type"]) == (503, "server_busy")


async def test_a_failure_inside_a_stream_is_its_last_event(harness: Harness):
    harness.add_worker(step_s=0.05)
    await harness.start(timeout_s=1)
    *events, last = await stream(harness, prompt="hi [tokens=4000]")
    assert events
    assert (last["error"]["code"], last["error"]["type"]) == (504, "server_timeout")


async def test_an_answer_is_resumed_after_a_lost_worker(harness: Harness):
    await harness.start()
    wanted = await stream(harness, prompt="one [tokens=60]", seed=5)
    reading = asyncio.create_task(stream(harness, prompt="one [tokens=60]", seed=5))
    await until(lambda: harness.worker.counters.decode_tokens > 80)
    await harness.worker.restart()
    got = await reading
    assert got[:-1] == wanted[:-1]
    assert harness.worker.submitted[-1].attempt == 2


async def test_a_disconnect_frees_the_slot(harness: Harness):
    await harness.start()
    body = dump(prompt="hi [tokens=3000]", stream=True)
    async with harness.session.post(PATH, data=body) as reply:
        await reply.content.readline()
    await harness.idle()
    assert len(harness.worker.cancelled) == 1


async def test_a_client_sets_the_ping_interval(harness: Harness):
    harness.add_worker(step_s=0.1)
    await harness.start(start_timeout_s=0.1, sse_ping_interval_s=-1)

    async def count_pings(**fields: Any) -> int:
        body = dump(prompt="hi [prefill=14] [tokens=2]", stream=True, **fields)
        async with harness.session.post(PATH, data=body) as reply:
            return (await reply.read()).count(b": ping\n\n")

    # The first comment opens a stream without events.
    silent, lively = await asyncio.gather(count_pings(), count_pings(sse_ping_interval=1))
    assert silent == 1
    assert lively >= 2


# -------------------------------------------------------------------------- infill

GAP = {"input_prefix": "def f(", "input_suffix": "): pass"}


async def test_infill_reports_an_unable_model_first(harness: Harness):
    await harness.start()
    for fields in ({}, GAP, {"input_prefix": 1}):
        status, reply = await harness.ask("/infill", json.dumps(fields).encode())
        assert (status, reply["error"]["type"]) == (501, "not_supported_error")
        assert "prefix token is missing." in reply["error"]["message"]


async def test_infill_is_a_native_completion(harness: Harness):
    worker = harness.add_worker()
    worker.card.infill.prefix = worker.card.infill.suffix = worker.card.infill.middle = "<X>"
    await harness.start()
    status, reply = await harness.ask("/infill", json.dumps(GAP | {"prompt": "x"}).encode())
    assert (status, reply["prompt"], reply["stop_type"]) == (200, "def f(x _ ): pass", "eos")
    status, reply = await harness.ask("/infill", json.dumps({"input_prefix": ""}).encode())
    assert (status, reply["error"]["param"]) == (400, "input_suffix")


# ------------------------------------------------------------------ tokens and text


async def test_tokenize_and_detokenize_ask_the_worker(harness: Harness):
    await harness.start()
    body = json.dumps({"content": ["three", 7], "with_pieces": True}).encode()
    tokens = [{"id": 5, "piece": "5"}, {"id": 7, "piece": "7"}]
    assert await harness.ask("/tokenize", body) == (200, {"tokens": tokens})
    assert await harness.ask("/tokenize", b"{}") == (200, {"tokens": []})
    assert await harness.ask("/detokenize", b'{"tokens":[3,4]}') == (200, {"content": "3 4"})
    status, reply = await harness.ask("/tokenize", b'{"content":1}')
    assert (status, reply["error"]["message"].split(":")[0]) == (400, "Tokenization error")


# ------------------------------------------------------------------------- properties


async def test_properties_have_defaults_and_slots_of_all_replicas(harness: Harness):
    worker = harness.add_worker(replicas=2, slots=3)
    worker.card.default_sampling_json = '{"temperature": 0.25, "max_tokens": 48}'
    await harness.start()
    _, report = await harness.get("/props")
    settings = report["default_generation_settings"]
    assert (settings["temperature"], settings["n_predict"]) == (0.25, 48)
    assert settings["seed"] == 18446744073709551615
    assert report["total_slots"] == 6
    assert (report["endpoint_slots"], report["endpoint_props"]) == (True, False)


@pytest.mark.parametrize("props", [False, True])
async def test_properties_can_t_be_changed(harness: Harness, props):
    await harness.start(props=props)
    status, reply = await harness.ask("/props", b"{}")
    if props:
        assert (status, reply) == (200, {"success": True})
    else:
        assert (status, reply["error"]["type"]) == (501, "not_supported_error")


async def test_the_slots_route_can_be_disabled(harness: Harness):
    await harness.start(slots=False)
    status, reply = await harness.get("/slots")
    assert (status, reply["error"]["type"]) == (501, "not_supported_error")


async def test_slots_can_respond_503_if_none_is_free(harness: Harness):
    harness.add_worker(slots=1)
    await harness.start()
    assert (await harness.get("/slots?fail_on_no_slot=1"))[0] == 200
    busy = asyncio.create_task(harness.text("x [tokens=3000]"))
    await until(lambda: harness.worker.active == 1)
    status, reply = await harness.get("/slots?fail_on_no_slot=1")
    assert (status, reply["error"]["message"]) == (503, "no slot available")
    assert (await harness.get("/slots"))[0] == 200
    busy.cancel()
    await harness.idle()
