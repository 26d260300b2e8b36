"""Streams are resumed after the loss of a worker."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

from tests.contract.harness import Harness, read_text
from tests.fakes.script import prompt_text
from tests.wait import until

# Prompts with every kind of state that a replay must restore.
PROMPTS = (
    "one [tokens=60]",
    "two [think=20] [tokens=60]",
    "three [hold=7] [tokens=60]",
    "four [tool=30] [tokens=60]",
)


async def undisturbed(harness: Harness, prompt: str, **fields) -> list:
    return strip([chunk async for chunk in harness.stream(prompt, seed=5, **fields)])


def strip(chunks: list) -> list:
    """Return chunks without fields that differ between requests."""
    return [
        chunk if isinstance(chunk, str) else {**chunk, "id": "", "created": 0} for chunk in chunks
    ]


def join(chunks: list) -> list:
    """Return the stream with adjacent texts of one kind joined."""
    out: list = []
    for chunk in chunks:
        delta = chunk["choices"][0]["delta"] if chunk != "[DONE]" and chunk["choices"] else {}
        text = next((name for name in ("content", "reasoning") if delta.get(name)), None)
        if text is None:
            out.append(chunk)
        elif out and isinstance(out[-1], tuple) and out[-1][0] == text:
            out[-1] = (text, out[-1][1] + delta[text])
        else:
            out.append((text, delta[text]))
    return out


USAGE = {"stream_options": {"include_usage": True}}


@pytest.mark.parametrize("prompt", PROMPTS)
async def test_a_resumed_stream_equals_an_undisturbed_one(harness: Harness, prompt: str):
    await harness.start()
    # The fake derives tool-call ids from the request id.
    wanted = join(await undisturbed(harness, prompt, **USAGE))
    reading = asyncio.create_task(undisturbed(harness, prompt, **USAGE))
    for _ in range(3):
        before = harness.worker.counters.decode_tokens
        await until(lambda: harness.worker.counters.decode_tokens > before + 7)  # noqa: B023
        await harness.worker.restart()
    got = join(await reading)
    assert mask_ids(got) == mask_ids(wanted)
    assert harness.worker.submitted[-1].attempt >= 3
    await harness.idle()


def mask_ids(chunks: list) -> list:
    for chunk in chunks:
        for choice in chunk["choices"] if isinstance(chunk, dict) else []:
            for call in choice["delta"].get("tool_calls", []):
                call.pop("id", None)
    return chunks


async def test_a_resumed_answer_equals_an_undisturbed_one(harness: Harness):
    await harness.start()
    wanted = await harness.answer("one [tokens=60]", seed=5)
    asking = asyncio.create_task(harness.answer("one [tokens=60]", seed=5))
    await until(lambda: harness.worker.counters.decode_tokens > 80)
    await harness.worker.restart()
    got = await asking
    assert got["choices"] == wanted["choices"]
    assert got["usage"] == wanted["usage"]


async def test_logprobs_have_one_position_per_token_after_a_resume(harness: Harness):
    await harness.start()
    async with supervised(harness):
        chunks = [c async for c in harness.stream("x [tokens=40] [die=15]", seed=5, logprobs=True)]
    positions = [c for c in chunks[:-1] if c["choices"][0]["logprobs"]]
    assert len(positions) == 40


async def test_the_second_attempt_forces_every_id_of_the_first(harness: Harness):
    await harness.start()
    asking = asyncio.create_task(harness.text("x [tokens=40] [hold=9] [die=20]", seed=5))
    await until(lambda: not harness.worker.listening)
    await harness.worker.start()
    await asking
    first, second = harness.worker.submitted
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.key == second.key
    assert len(first.forced_ids) == 0
    assert len(second.forced_ids) == 20
    assert first.arrival_ns == second.arrival_ns
    assert first.sampling.seed == second.sampling.seed
    assert first.chat == second.chat


@pytest.mark.slow
async def test_many_streams_survive_many_losses(harness: Harness):
    harness.add_worker(slots=8)
    await harness.start(max_queue_depth=32)
    prompts = [f"stream {index} [tokens=150]" for index in range(20)]
    wanted = await asyncio.gather(*(harness.text(prompt, seed=1) for prompt in prompts))
    reading = [asyncio.create_task(harness.text(prompt, seed=1)) for prompt in prompts]
    chance = random.Random(4)
    for _ in range(5):
        await asyncio.sleep(chance.uniform(0.05, 0.3))
        await harness.worker.restart()
    assert await asyncio.gather(*reading) == wanted
    await harness.idle()


async def test_requests_are_resumed_at_another_replica(harness: Harness):
    harness.add_worker(replicas=2)
    await harness.start()
    wanted = await harness.text("x [tokens=150]", seed=2)
    first, second = harness.workers
    reading = [asyncio.create_task(harness.text("x [tokens=150]", seed=2)) for _ in range(4)]
    await until(lambda: first.active and second.active)
    await first.stop()
    assert await asyncio.gather(*reading) == [wanted] * 4
    assert (await harness.health())["status"] == "ok"


async def test_an_exception_in_a_step_is_a_loss(harness: Harness):
    await harness.start()
    wanted = await harness.text("calm [tokens=40]", seed=2)
    calm = asyncio.create_task(harness.text("calm [tokens=40]", seed=2))
    assert await harness.text("x [tokens=30] [raise=12]")
    assert await calm == wanted
    await harness.idle()


async def test_a_worker_that_does_not_return_ends_streams_with_an_error(harness: Harness):
    await harness.start(resume_timeout_s=1)
    chunks = [chunk async for chunk in harness.stream("x [tokens=40] [die=10]")]
    assert chunks[-1] == "[DONE]"
    assert chunks[-2]["choices"][0]["finish_reason"] == "error"
    assert chunks[-2]["error"]["type"] == "server_error"
    assert "did not come back within 1 s" in chunks[-2]["error"]["message"]
    contents = [c["choices"][0]["delta"].get("content") for c in chunks[:-2]]
    assert len([content for content in contents if content]) == 10
    status, _ = await harness.post("x [tokens=40] [die=10]")
    assert status == 503


async def test_new_requests_are_refused_while_the_worker_is_lost(harness: Harness):
    await harness.start()
    await harness.worker.stop()
    await until(lambda: harness.context.registry.default().state != "ready")
    for stream in (False, True):
        status, reply = await harness.post("x", stream=stream)
        assert status == 503
        assert reply["error"]["type"] == "server_error"
        assert "grpc" not in reply["error"]["message"].lower()
    await harness.worker.start()
    await until(lambda: harness.context.registry.default().state == "ready")
    assert await harness.text("x")


async def test_waiting_requests_stay_queued_over_a_loss(harness: Harness):
    harness.add_worker(slots=1)
    await harness.start()
    reading = [asyncio.create_task(harness.text(f"{i} [tokens=30]")) for i in range(6)]
    await until(lambda: harness.context.registry.default().admission.waiting == 3)
    await harness.worker.restart()
    assert all(await asyncio.gather(*reading))
    await harness.idle()


async def test_a_prompt_that_crashes_the_worker_in_submit_fails_soon(harness: Harness):
    await harness.start()
    async with supervised(harness):
        status, reply = await harness.post("bad [deadly]")
    assert (status, reply["error"]["type"]) == (503, "server_error")
    assert len(harness.worker.submitted) == 7


async def answer_beside_others(harness: Harness, prompt: str) -> tuple[int, dict]:
    """Return the answer to a bad request; the texts of six others equal an undisturbed run."""
    harness.add_worker(slots=8)
    await harness.start()
    prompts = [f"good {index} [tokens=60]" for index in range(6)]
    wanted = [await harness.text(good, seed=3) for good in prompts]
    async with supervised(harness):
        running = [asyncio.create_task(harness.text(good, seed=3)) for good in prompts]
        answer = await harness.post(prompt)
        assert await asyncio.gather(*running) == wanted
    return answer


async def test_a_request_that_crashes_workers_fails_alone(harness: Harness):
    status, reply = await answer_beside_others(harness, "bad [poison=0]")
    assert (status, reply["error"]["type"]) == (500, "server_error")
    await harness.idle()
    isolated = [request for request in harness.worker.submitted if request.isolate]
    assert isolated


async def test_a_request_that_crashes_workers_late_fails_alone(harness: Harness):
    harness.add_worker(slots=8)
    await harness.start()
    async with supervised(harness):
        good = [asyncio.create_task(harness.text(f"good {i} [tokens=60]")) for i in range(3)]
        chunks = [chunk async for chunk in harness.stream("bad [tokens=40] [poison=25]")]
        assert all(await asyncio.gather(*good))
    assert chunks[-2]["choices"][0]["finish_reason"] == "error"
    texts = [c["choices"][0]["delta"].get("content") for c in chunks[:-2]]
    assert len([text for text in texts if text]) == 25
    await harness.idle()


async def test_a_request_whose_step_hangs_fails_alone_and_names_the_limit(harness: Harness):
    status, reply = await answer_beside_others(harness, "bad [hang=0]")
    assert (status, reply["error"]["type"]) == (500, "server_error")
    assert "took longer than 120 s (--step-timeout)" in reply["error"]["message"]
    attempts = [r for r in harness.worker.submitted if "bad" in prompt_text(r)]
    # One more may have been submitted while the worker exited.
    assert [request.isolate for request in attempts][-1:] == [True]
    assert sum(request.isolate for request in attempts) == 1
    await harness.idle()


@contextlib.asynccontextmanager
async def supervised(harness: Harness):
    """Restart the worker whenever it has exited."""

    async def keep_alive():
        while not ended.is_set():
            await asyncio.sleep(0.02)
            if not harness.worker.listening:
                await harness.worker.start()

    ended = asyncio.Event()
    keeper = asyncio.create_task(keep_alive())
    try:
        yield
    finally:
        ended.set()
        await keeper


async def test_a_missing_watch_is_opened_again(harness: Harness):
    await harness.start()
    harness.worker.forget_watches()
    assert await harness.text("x")
    assert await harness.answer("x")


async def test_a_request_survives_the_end_of_its_workers_heartbeats(harness: Harness):
    harness.add_worker(step_s=0.02)
    await harness.start()
    wanted = await harness.text("x [tokens=60]", seed=9)
    reading = asyncio.create_task(harness.text("x [tokens=60]", seed=9))
    await until(lambda: harness.worker.active == 1)
    harness.worker.end_pulses()
    assert await reading == wanted
    assert len(harness.worker.watched) == 2
    assert await harness.text("next")


async def test_frames_of_an_earlier_attempt_are_not_delivered(harness: Harness):
    await harness.start()
    wanted = await harness.text("x [tokens=60]", seed=9)
    reading = asyncio.create_task(harness.text("x [tokens=60]", seed=9))
    await until(lambda: harness.worker.counters.decode_tokens > 80)
    await harness.worker.restart()
    await until(lambda: harness.worker.active == 1)
    harness.worker.repeat_frame_of_attempt(1)
    assert await reading == wanted


async def test_a_disconnect_during_recovery_removes_the_request(harness: Harness):
    await harness.start()
    reading = asyncio.create_task(harness.text("x [tokens=60] [die=10]"))
    await until(lambda: harness.context.registry.default().state != "ready")
    reading.cancel()
    await until(lambda: harness.context.registry.default().admission.waiting == 0)
    submitted = len(harness.worker.submitted)
    await harness.worker.start()
    await until(lambda: harness.context.registry.default().state == "ready")
    assert await harness.text("next")
    assert len(harness.worker.submitted) == submitted + 1


def test_read_text_rejects_a_failed_stream():
    chunk = {"choices": [{"delta": {}, "finish_reason": "error"}]}
    with pytest.raises(AssertionError):
        read_text([chunk, "[DONE]"])
