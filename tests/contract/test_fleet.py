"""Several workers behind one gateway: names, health, models."""

from __future__ import annotations

import asyncio

import pytest

from tests import spec
from tests.contract.harness import Harness
from tests.wait import until


async def start_two(harness: Harness, **settings) -> None:
    harness.add_worker("main", name="SmolLM2")
    harness.add_worker("second", name="Qwen")
    harness.workers[1].card.aliases.extend(["qwen3", "small"])
    await harness.start(**settings)


@pytest.mark.parametrize(
    ("model", "served"),
    [
        ("SmolLM2", "SmolLM2"),
        ("main", "SmolLM2"),
        ("Qwen", "Qwen"),
        ("qwen3", "Qwen"),
        ("second", "Qwen"),
        ("gpt-4o", "SmolLM2"),
        ("", "SmolLM2"),
        (None, "SmolLM2"),
    ],
)
async def test_a_model_is_found_by_name_alias_or_worker(harness: Harness, model, served):
    await start_two(harness)
    answer = await harness.answer("x", **({} if model is None else {"model": model}))
    assert answer["model"] == served
    counts = [len(worker.submitted) for worker in harness.workers]
    assert counts == ([1, 0] if served == "SmolLM2" else [0, 1])


async def test_strict_names_are_refused_unless_known(harness: Harness):
    await start_two(harness, strict_model=True)
    status, reply = await harness.post("x", model="gpt-4o")
    assert status == 404
    assert reply["error"]["code"] == "model_not_found"
    assert "gpt-4o" in reply["error"]["message"]
    assert (await harness.post("x", model="small"))[1]["model"] == "Qwen"
    assert (await harness.post("x"))[1]["model"] == "SmolLM2"


@pytest.mark.parametrize("strict_model", [True, False])
async def test_a_loading_model_is_not_replaced_by_another(harness: Harness, strict_model):
    harness.add_worker("main", name="SmolLM2")
    harness.add_worker(
        "big", fleet={"model": "models/Qwen3-8B", "alias": ["qwen"]}, name="Qwen3-8B"
    )
    harness.workers[1].loading = True
    await harness.start(wait=False, strict_model=strict_model)
    await asyncio.gather(*(worker.start() for worker in harness.workers))
    await until(lambda: harness.replica.ready)
    for model in ("big", "Qwen3-8B", "qwen"):
        status, reply = await harness.post("x", model=model)
        assert (status, reply["error"]["message"]) == (503, "Loading model")
    status, _ = await harness.post("x", model="unheard of")
    assert status == (503 if strict_model else 200)


async def test_all_models_are_listed(harness: Harness):
    await start_two(harness)
    for path in ("/v1/models", "/models"):
        status, reply = await harness.get(path)
        assert status == 200
        assert reply["object"] == "list"
        assert (reply["first_id"], reply["last_id"]) == ("SmolLM2", "Qwen")
        assert reply["has_more"] is False
        assert [entry["id"] for entry in reply["data"]] == ["SmolLM2", "Qwen"]
        assert [entry["name"] for entry in reply["models"]] == ["SmolLM2", "Qwen"]
        assert reply["data"][1] == {
            "id": "Qwen",
            "object": "model",
            "created": 1_700_000_000,
            "owned_by": "user",
            "type": "model",
            "display_name": "Qwen",
            "created_at": "2023-11-14T22:13:20Z",
            "aliases": ["qwen3", "small"],
            "tags": [],
            "capabilities": ["completion"],
            "meta": {"n_vocab": 0, "n_ctx": 4096, "n_ctx_train": 0, "n_params": 0, "size": 0},
        }
        assert spec.find_errors("openai", "ListModelsResponse", reply) == []


async def test_anthropic_clients_get_models_in_their_form(harness: Harness):
    await start_two(harness)
    header = {"anthropic-version": "2023-06-01"}
    status, reply = await harness.get("/v1/models", **header)
    assert status == 200
    assert spec.find_errors("anthropic", "ListResponse_ModelInfo_", reply) == []
    assert [entry["id"] for entry in reply["data"]] == ["SmolLM2", "Qwen"]
    entry = reply["data"][1]
    assert (await harness.get("/v1/models/qwen3", **header)) == (200, entry)
    assert entry["max_input_tokens"] == entry["max_tokens"] == 4096
    assert entry["capabilities"]["structured_outputs"] == {"supported": True}


async def test_one_model_is_found_by_name_or_alias(harness: Harness):
    harness.add_worker("main", name="mlx-community/Qwen3-8B")
    harness.workers[0].card.aliases.append("qwen3")
    await harness.start()
    for name in ("mlx-community/Qwen3-8B", "mlx-community%2FQwen3-8B", "qwen3"):
        status, entry = await harness.get(f"/v1/models/{name}")
        assert (status, entry["id"]) == (200, "mlx-community/Qwen3-8B")
        assert spec.find_errors("openai", "Model", entry) == []
    status, reply = await harness.get("/v1/models/gpt-4o")
    assert (status, reply["error"]["code"]) == (404, "model_not_found")


@pytest.mark.parametrize("path", ["/", "/health", "/v1/health", "/v1/models", "/slots"])
async def test_get_routes_respond_to_head(harness: Harness, path):
    await harness.start()
    async with harness.session.head(path) as reply:
        assert reply.status == 200
        assert int(reply.headers["Content-Length"]) > 0
        assert await reply.read() == b""


async def test_a_lost_worker_does_not_affect_others(harness: Harness):
    await start_two(harness)
    await harness.workers[1].stop()
    await until(lambda: harness.context.registry.workers[1].state == "down")
    assert (await harness.post("x"))[0] == 200
    assert (await harness.post("x", model="Qwen"))[0] == 503
    report = await harness.health()
    assert report["status"] == "ok"
    assert [(row["model"], row["state"]) for row in report["workers"]] == [
        ("SmolLM2", "ready"),
        ("Qwen", "down"),
    ]
    assert len((await harness.get("/v1/models"))[1]["data"]) == 2


async def test_health_while_no_model_has_been_loaded_yet(harness: Harness):
    harness.add_worker()
    harness.worker.loading = True
    await harness.start(wait=False)
    loading = {"status": "loading model", "tool_call_parser": None}
    for path in ("/", "/health", "/v1/health"):
        assert await harness.get(path) == (503, loading)
    await harness.worker.start()
    await asyncio.sleep(0.3)
    assert await harness.get("/health") == (503, loading)
    status, reply = await harness.post("x")
    assert status == 503
    assert reply["error"]["message"] == "Loading model"
    assert reply["error"]["type"] == "server_busy"
    assert (await harness.get("/v1/models"))[1]["data"] == []
    harness.worker.loading = False
    await until(lambda: harness.context.registry.default().state == "ready")
    assert (await harness.get("/health"))[0] == 200


async def test_health_of_an_idle_server(harness: Harness):
    await harness.start()
    await harness.answer("x [tokens=5]")
    harness.worker.send_heartbeats()
    await until(lambda: harness.replica.counters.values()["sequences_completed"] == 1)
    status, report = await harness.get("/health")
    assert status == 200
    assert list(report) == [
        "status",
        "model",
        "batch",
        "observability",
        "context_size",
        "tool_call_parser",
        "workers",
    ]
    assert report["status"] == "ok"
    assert report["model"] == "fake"
    assert report["batch"] == {"active_sequences": 0, "queue_depth": 0, "max_batch_size": 4}
    assert report["observability"] == {
        "sequences_started": 1,
        "sequences_completed": 1,
        "total_prefill_tokens": 0,
        "total_decode_tokens": 5,
        "decode_steps_processed": 0,
        "prefill_chunks_processed": 0,
        "current_batch_size": 0,
        "cache_pool_active": 0,
    }
    assert (report["context_size"], report["tool_call_parser"]) == (4096, "mlxcel")


async def test_health_of_a_full_server(harness: Harness):
    harness.add_worker(slots=2)
    await harness.start()
    busy = [asyncio.create_task(harness.text("x [tokens=3000]")) for _ in range(5)]
    await until(lambda: (harness.replica.active, harness.replica.queued) == (2, 2))
    await until(lambda: harness.context.registry.default().admission.waiting == 1)
    status, report = await harness.get("/health")
    assert status == 503
    assert report["status"] == "no slot available"
    assert report["batch"] == {"active_sequences": 2, "queue_depth": 3, "max_batch_size": 2}
    assert report["tool_call_parser"] == "mlxcel"
    for task in busy:
        task.cancel()
    await harness.idle()
    assert (await harness.get("/health"))[0] == 200


async def test_a_worker_in_a_long_step_is_busy_and_its_requests_wait(harness: Harness):
    await harness.start(resume_timeout_s=0)
    harness.worker.step_age_ms = 60_000
    harness.worker.send_heartbeats()
    await until(lambda: harness.replica.state == "busy")
    status, report = await harness.get("/health")
    assert (status, report["status"], report["workers"][0]["state"]) == (503, "busy", "busy")
    waiting = asyncio.create_task(harness.text("x"))
    await until(lambda: harness.context.registry.default().admission.waiting == 1)
    # Calls that the engine does not answer are not delayed.
    assert (await harness.ask("/tokenize", b'{"content": "x"}'))[0] == 200
    assert (await harness.get("/slots"))[0] == 200
    assert not waiting.done()
    harness.worker.step_age_ms = 0
    harness.worker.send_heartbeats()
    assert await waiting
    assert (await harness.health())["status"] == "ok"


async def test_health_of_a_worker_that_hangs(harness: Harness):
    await harness.start()
    harness.worker.step_age_ms = 121_000
    harness.worker.send_heartbeats()
    await until(lambda: harness.replica.state == "hung")
    assert await harness.get("/health") == (503, {"status": "hung", "tool_call_parser": None})
    status, reply = await harness.post("x")
    assert status == 503
    assert reply["error"]["message"] == "The model worker is restarting. Please try again."


async def test_health_of_a_lost_worker_and_its_return(harness: Harness):
    await harness.start()
    await harness.answer("x [tokens=5]")
    harness.worker.send_heartbeats()
    await until(lambda: harness.replica.counters.values()["sequences_completed"] == 1)
    await harness.worker.stop()
    await until(lambda: harness.context.registry.default().state == "down")
    assert await harness.get("/health") == (503, {"status": "restarting", "tool_call_parser": None})
    await harness.worker.start()
    await until(lambda: harness.context.registry.default().state == "ready")
    report = await harness.health()
    assert report["status"] == "ok"
    # The counters of a restarted worker start at 0, those of the server do not.
    assert report["observability"]["total_decode_tokens"] == 5


async def test_replicas_share_the_load(harness: Harness):
    harness.add_worker(replicas=2, slots=2)
    await harness.start()
    tasks = [asyncio.create_task(harness.text("x [tokens=4000]")) for _ in range(4)]
    replicas = harness.context.registry.default().replicas
    await until(lambda: all(replica.active == 2 for replica in replicas))
    report = await harness.health()
    assert report["batch"]["max_batch_size"] == 4
    assert report["status"] == "no slot available"
    for task in tasks:
        task.cancel()
    await harness.idle()
