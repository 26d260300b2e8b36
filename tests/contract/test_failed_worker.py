"""A worker that can't start: what its clients, `/health` and `/v1/models` say of it."""

from __future__ import annotations

import asyncio
import os

import pytest

from shared import start_failure
from shared.start_failure import StartFailure
from tests import spec
from tests.contract.harness import Harness
from tests.wait import until

REASON = "Qwen3-8B has no config.json; it is not a model folder"
SENTENCE = f"The worker 'second' can't start: {REASON}."


@pytest.fixture
def fail(harness: Harness):
    """Report a failed start of a worker, or with "" withdraw it."""

    def fail(index: int, reason: str = REASON) -> None:
        path = start_failure.find_file(harness.workers[index].address)
        if reason:
            start_failure.write(path, StartFailure(reason, was_ready=False, pid=os.getpid()))
        else:
            start_failure.clear(path)

    return fail


async def start_with_failed(harness: Harness, fail, index=1, **settings) -> None:
    """Start two workers of which one can't start."""
    harness.add_worker("main", name="SmolLM2")
    fleet = {"model": "models/Qwen3-8B", "alias": ["qwen"]}
    harness.add_worker("second", fleet=fleet, name="Qwen3-8B")
    fail(index)
    await harness.start(wait=False, **settings)
    await harness.workers[1 - index].start()
    states = ["ready", "failed"] if index else ["failed", "ready"]
    workers = harness.context.registry.workers
    await until(lambda: [worker.state for worker in workers] == states)


async def test_its_requests_name_the_reason_and_the_others_are_served(harness: Harness, fail):
    await start_with_failed(harness, fail)
    for model in ("second", "qwen", "Qwen3-8B"):
        status, reply = await harness.post("x", model=model)
        assert (status, reply["error"]["message"]) == (503, SENTENCE)
        assert reply["error"]["type"] == "server_error"
        assert spec.find_errors("openai", "ErrorResponse", reply) == []
    data = b'{"model":"second","max_tokens":9,"messages":[{"role":"user","content":"x"}]}'
    status, reply = await harness.ask("/v1/messages", data)
    assert (status, reply["error"]["message"]) == (503, SENTENCE)
    assert (await harness.post("x"))[0] == 200


async def test_health_and_the_list_of_models_say_why(harness: Harness, fail):
    await start_with_failed(harness, fail)
    status, report = await harness.get("/health")
    assert (status, report["status"]) == (200, "ok")
    assert report["workers"][1] == {
        "name": "second",
        "kind": "text",
        "model": None,
        "state": "failed",
        "reason": REASON,
    }
    assert "reason" not in report["workers"][0]
    _, listed = await harness.get("/v1/models")
    assert [entry["id"] for entry in listed["data"]] == ["SmolLM2", "qwen"]
    entry = listed["data"][1]
    assert entry["aliases"] == ["Qwen3-8B", "second"]
    assert entry["status"] == {"value": "unloaded", "failed": True, "reason": REASON}
    assert "status" not in listed["data"][0]
    assert spec.find_errors("openai", "ListModelsResponse", listed) == []
    assert await harness.get("/v1/models/second") == (200, entry)


async def test_health_of_a_default_worker_that_can_not_start(harness: Harness, fail):
    await start_with_failed(harness, fail, index=0)
    status, report = await harness.get("/health")
    assert (status, report["status"], report["reason"]) == (503, "failed", REASON)
    assert [row["state"] for row in report["workers"]] == ["failed", "ready"]
    assert (await harness.post("x", model="second"))[0] == 200


async def test_it_serves_once_it_has_started(harness: Harness, fail):
    await start_with_failed(harness, fail)
    await harness.workers[1].start()
    await until(lambda: harness.context.registry.workers[1].state == "ready")
    assert (await harness.post("x", model="second"))[0] == 200
    assert "reason" not in (await harness.health())["workers"][1]
    assert "status" not in (await harness.get("/v1/models"))[1]["data"][1]
    # A failure that is withdrawn leaves a worker that restarts.
    await harness.workers[1].stop()
    await until(lambda: harness.context.registry.workers[1].state == "failed")
    fail(1, "")
    await until(lambda: harness.context.registry.workers[1].state == "down")
    status, reply = await harness.post("x", model="second")
    assert (status, "restarting" in reply["error"]["message"]) == (503, True)


async def test_a_stream_whose_worker_can_not_return_ends_with_the_reason(harness: Harness, fail):
    await harness.start()
    asking = asyncio.create_task(harness.post("x [tokens=4000]"))
    await until(lambda: harness.replica.active == 1)
    await harness.worker.stop()
    fail(0)
    status, reply = await asyncio.wait_for(asking, 10)
    assert status == 503
    assert reply["error"]["message"] == f"The worker 'text' can't start: {REASON}."


async def test_an_unknown_model_is_a_404_beside_a_worker_that_can_not_start(harness: Harness, fail):
    await start_with_failed(harness, fail, strict_model=True)
    assert (await harness.post("x", model="gpt-4o"))[0] == 404
