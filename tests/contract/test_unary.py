"""Workers with independent calls: limits, timeouts, losses, shutdown."""

from __future__ import annotations

import asyncio
import base64
import struct

import pytest

from gateway.server import stop
from shared.fleet import WorkerEntry
from shared.pb import common_pb2 as common
from shared.pb import worker_pb2
from tests.contract.harness import Harness
from tests.fakes.embed_worker import FakeEmbedWorker
from tests.wait import until

EMBED, RERANK = "/v1/embeddings", "/v1/rerank"


class Annex:
    """A harness with embed and rerank workers beside its text worker."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.workers: list[FakeEmbedWorker] = []

    def add(self, kind: str = "embed", replicas: int = 1, **options) -> FakeEmbedWorker:
        index = len(self.harness._entries)
        addresses = tuple(f"unix:{self.harness._folder}/u{index}.{n}.sock" for n in range(replicas))
        entry = WorkerEntry(index, kind, kind, "", replicas, 0.0, {})
        self.harness._entries.append((entry, addresses))
        made = [FakeEmbedWorker(address, kind, **options) for address in addresses]
        self.workers += made
        return made[0]

    async def start(self, *, wait: bool = True, **settings) -> None:
        await asyncio.gather(*(worker.start() for worker in self.workers))
        await self.harness.start(wait=wait, **settings)

    async def post(self, path: str = EMBED, headers=None, **body):
        async with self.harness.session.post(path, json=body, headers=headers) as reply:
            return reply.status, await reply.json(), reply.headers

    def ask(self, text: str) -> asyncio.Task:
        """Post a text in a task."""
        return asyncio.create_task(self.post(input=text))

    @property
    def worker(self):
        """The first embed worker, as the gateway sees it."""
        return self.harness.context.registry.of_kind("embed")[0]


@pytest.fixture
async def annex(harness):
    harness.add_worker()
    made = Annex(harness)
    try:
        yield made
    finally:
        for worker in made.workers:
            worker.release.set()
        await harness.stop()
        await asyncio.gather(*(worker.stop() for worker in made.workers))


def read_error(reply):
    status, body, _ = reply
    return status, body["error"]["type"], body["error"]["message"]


async def test_a_call_succeeds_and_is_counted(annex):
    worker = annex.add()
    await annex.start()
    status, body, _ = await annex.post(input=["ab", "abc"], headers={"X-Priority": "high"})
    assert status == 200
    assert [row["embedding"] for row in body["data"]] == [[2, 0, 0.5, 0.5], [3, 1, 0.5, 0.5]]
    assert body["model"] == "fake-embed"
    assert worker.seen[0].priority == common.PRIORITY_HIGH
    assert worker.seen[0].arrival_ns > 0
    counted = annex.harness.context.metrics.counted
    assert (counted.requests, counted.prompt_tokens, counted.completion_tokens) == (1, 7, 0)


async def test_calls_over_the_limit_are_refused_until_others_end(annex):
    worker = annex.add(queue_limit=2)
    await annex.start()
    held = [annex.ask("[hold]") for _ in range(2)]
    await until(lambda: len(worker.seen) == 2)
    reply = await annex.post(input="x")
    assert read_error(reply) == (
        503,
        "server_busy",
        "All slots are busy. Please try again later.",
    )
    assert reply[2]["Retry-After"] == "1"
    worker.release.set()
    assert [status for status, _, _ in await asyncio.gather(*held)] == [200, 200]
    assert (await annex.post(input="x"))[0] == 200


@pytest.mark.parametrize(
    ("kind", "path", "body", "name"),
    [
        ("embed", EMBED, {"input": "[hold]"}, "Embedding"),
        ("rerank", RERANK, {"query": "[hold]", "documents": ["x"]}, "Rerank"),
    ],
)
async def test_a_call_that_takes_too_long_times_out(annex, kind, path, body, name):
    worker = annex.add(kind, call_timeout_ms=200)
    await annex.start()
    reply = await annex.post(path, **body)
    sentence = f"{name} request timed out. Please try again later."
    assert read_error(reply) == (504, "server_timeout", sentence)
    await until(lambda: worker.cancelled == 1)


async def test_a_call_is_repeated_on_the_restarted_process(annex):
    worker = annex.add()
    await annex.start()
    call = annex.ask("[die]")
    await until(lambda: not worker.listening)
    await worker.start()
    status, body, _ = await call
    assert status == 200, body
    assert len(worker.seen) == 2


async def test_a_call_that_loses_two_workers_is_a_503(annex):
    worker = annex.add(lives=2)
    await annex.start()
    call = annex.ask("[die]")
    await until(lambda: not worker.listening)
    await worker.start()
    assert read_error(await call)[:2] == (503, "server_error")
    assert len(worker.seen) == 2


async def test_a_worker_that_does_not_return_is_a_503(annex):
    worker = annex.add()
    await annex.start(resume_timeout_s=1)
    status, kind, message = read_error(await annex.ask("[die]"))
    assert (status, kind) == (503, "server_error")
    assert message == "The model worker did not come back in time."
    assert read_error(await annex.post(input="x"))[:2] == (503, "server_error")
    await worker.start()
    await until(lambda: annex.worker.state == "ready")
    assert (await annex.post(input="x"))[0] == 200


async def test_a_model_that_fails_twice_is_a_500_of_the_reference(annex):
    worker = annex.add()
    await annex.start()
    reply = await annex.post(input="[fail=engine_failed]")
    assert read_error(reply) == (
        500,
        "server_error",
        "embedding inference failed: as the script says",
    )
    assert len(worker.seen) == 2


async def test_a_refused_call_is_not_repeated(annex):
    worker = annex.add()
    await annex.start()
    assert read_error(await annex.post(input="[fail=invalid_request]"))[0] == 400
    assert len(worker.seen) == 1


async def test_a_malformed_body_is_reported_before_a_loading_worker(annex):
    worker = annex.add()
    worker.loading = True
    await annex.start(wait=False)
    assert read_error(await annex.post(input="x")) == (503, "server_busy", "Loading model")
    assert read_error(await annex.post(input=5))[0] == 400
    rows = (await annex.harness.get("/health"))[1].get("workers", [])
    assert all(row["model"] is None for row in rows if row["kind"] == "embed")


async def test_calls_go_to_the_replica_with_fewer(annex):
    annex.add(replicas=2)
    await annex.start()
    await until(lambda: all(replica.ready for replica in annex.worker.replicas))
    held = [annex.ask("[hold]") for _ in range(4)]
    await until(lambda: sum(len(worker.seen) for worker in annex.workers) == 4)
    assert [len(worker.seen) for worker in annex.workers] == [2, 2]
    for worker in annex.workers:
        worker.release.set()
    await asyncio.gather(*held)


async def test_a_disconnect_cancels_the_call_at_the_worker(annex):
    worker = annex.add()
    await annex.start()
    call = annex.ask("[hold]")
    await until(lambda: len(worker.seen) == 1)
    call.cancel()
    await until(lambda: worker.cancelled == 1)
    assert not any(replica.calls for replica in annex.worker.replicas)


async def test_running_calls_fail_when_the_server_stops(annex):
    worker = annex.add()
    await annex.start()
    call = annex.ask("[hold]")
    await until(lambda: len(worker.seen) == 1)
    runner, annex.harness._runner = annex.harness._runner, None
    await stop([runner], annex.harness.context)
    assert read_error(await call) == (503, "server_error", "The server is shutting down.")


async def test_a_reply_of_many_megabytes_is_sent(annex):
    annex.add(encoder=worker_pb2.EncoderCard(dimensions=4096))
    await annex.start()
    status, body, _ = await annex.post(input=["x"] * 1000, encoding_format="base64")
    assert status == 200
    last = struct.unpack("<4096f", base64.b64decode(body["data"][-1]["embedding"]))
    assert last == (1, 999, *[0.5] * 4094)


async def test_names_choose_among_workers_and_unknown_ones_are_refused(annex):
    annex.add(name="one")
    annex.add(name="two")
    await annex.start()
    assert (await annex.post(input="x"))[1]["model"] == "one"
    assert (await annex.post(input="x", model="two"))[1]["model"] == "two"
    status, _, message = read_error(await annex.post(input="x", model="three"))
    assert (status, message) == (400, "model must be one of one, two")
    status, body = await annex.harness.post("hi", model="two")
    assert status == 400
    assert "does not generate text" in body["error"]["message"]


async def test_properties_describe_the_embedding_model(annex):
    annex.add(encoder=worker_pb2.EncoderCard(pooling="mean", normalize=2))
    await annex.start()
    _, report = await annex.harness.get("/props")
    assert report["capabilities"]["embedding"] == {
        "model": "fake-embed",
        "dim": 4,
        "pooling": "mean",
        "embd_normalize": 2,
        "multi_vector": False,
    }


async def test_an_invalid_score_is_a_500(annex):
    annex.add("rerank")
    await annex.start()
    reply = await annex.post(RERANK, query="[none]", documents=["x"])
    sentence = "rerank inference returned an invalid numeric result"
    assert read_error(reply) == (500, "server_error", sentence)


async def test_no_call_is_left_after_many_losses(annex):
    worker = annex.add(lives=1, queue_limit=64)
    await annex.start()
    calls = [annex.ask(text) for text in ("[hold]", "[hold]", "[die]")]
    await until(lambda: not worker.listening)
    worker.release.set()
    await worker.start()
    replies = await asyncio.gather(*calls)
    assert [status for status, _, _ in replies] == [200, 200, 200]
    assert not any(replica.calls for replica in annex.worker.replicas)


async def test_a_call_that_stops_workers_is_the_only_one_to_fail(annex):
    worker = annex.add(lives=2, queue_limit=64)
    await annex.start()
    *good, bad = [annex.ask(text) for text in ("[hold]", "[hold]", "[hold]", "[die]")]
    for _ in range(2):
        await until(lambda: not worker.listening)
        worker.release.set()
        await worker.start()
    assert [status for status, _, _ in await asyncio.gather(*good)] == [200] * 3
    assert (await bad)[0] == 503


async def test_a_call_repeated_after_a_loss_runs_alone(annex):
    worker = annex.add(queue_limit=64)
    await annex.start()
    lost = [annex.ask("[hold]"), annex.ask("[hold]")]
    await until(lambda: len(worker.seen) == 2)
    lost.append(annex.ask("[die]"))
    await until(lambda: not worker.listening)
    await worker.start()
    # The third may be the first to be repeated, and returns at once then.
    await until(lambda: "[hold]" in [call.items[0].text for call in worker.seen[3:]])
    seen = len(worker.seen)
    later = annex.ask("later")
    await asyncio.sleep(0.1)
    assert len(worker.seen) == seen
    assert sum(replica.calls for replica in annex.worker.replicas) == 1
    worker.release.set()
    assert [status for status, _, _ in await asyncio.gather(*lost, later)] == [200] * 4
    assert worker.seen[-1].items[0].text == "later"


async def test_a_call_waits_for_a_lost_worker_while_it_loads(annex):
    worker = annex.add()
    await annex.start(resume_timeout_s=1)
    call = annex.ask("[die]")
    await until(lambda: not worker.listening)
    worker.loading = True
    await worker.start()
    await until(lambda: annex.worker.state == "loading")
    await asyncio.sleep(1.1)
    worker.loading = False
    assert (await call)[0] == 200


async def test_the_routes_of_text_embeddings_inference(annex):
    annex.add()
    annex.add("rerank")
    await annex.start()
    status, body, _ = await annex.post("/embed", inputs=["ab", "abc"], truncate=True)
    assert (status, body) == (200, [[2, 0, 0.5, 0.5], [3, 1, 0.5, 0.5]])
    assert (await annex.post("/embed", inputs="ab"))[1] == [[2, 0, 0.5, 0.5]]
    for fields, named in (
        ({}, "inputs"),
        ({"inputs": 5}, "inputs"),
        ({"inputs": []}, "input"),
        ({"inputs": "x", "truncation_direction": "left"}, "truncation_direction"),
        ({"inputs": "x", "prompt_name": "query"}, "prompt_name"),
    ):
        status, body, _ = await annex.post("/embed", **fields)
        assert (status, body["error"]["param"]) == (400, named)
    assert (await annex.post("/embed_sparse", inputs="x"))[0] == 404
    async with annex.harness.session.get("/info") as reply:
        info = await reply.json()
    assert (info["model_id"], info["model_type"]) == ("fake-embed", {"embedding": {}})
