"""Prompt cache and slots of a worker over HTTP."""

from __future__ import annotations

import asyncio

from tests.contract.harness import Harness
from tests.wait import until


async def test_cache_statistics_have_every_field_of_the_reference(harness: Harness):
    harness.add_worker(replicas=2)
    await harness.start()
    status, report = await harness.get("/v1/cache/stats")
    assert status == 200
    assert report["enabled"] is True
    assert (report["entries"], report["bytes"], report["hit_rate"]) == (4, 200, 0.75)
    assert {
        "apc_enabled",
        "block_size",
        "hash",
        "capacity_bytes",
        "max_entries",
        "hits",
        "lookups",
        "inserts",
        "evictions_lru",
        "evictions_ttl",
        "rejections_oversized",
        "total_blocks_stored",
        "unique_block_hashes",
        "apc_active_entries",
    } <= report.keys()


async def test_resetting_the_cache_reports_what_was_freed(harness: Harness):
    await harness.start()
    async with harness.session.post("/v1/cache/reset") as reply:
        assert reply.status == 200
        assert await reply.json() == {"cleared": True, "freed_bytes": 100, "freed_entries": 2}


async def test_slots_are_followed_by_waiting_requests(harness: Harness):
    harness.add_worker(slots=2)
    await harness.start()
    _, idle = await harness.get("/slots")
    assert [slot["state"] for slot in idle] == ["idle", "idle"]
    assert idle[0] == {
        "id": 0,
        "state": "idle",
        "model": "fake",
        "context_size": 4096,
        "is_processing": False,
    }
    busy = [asyncio.create_task(harness.text("x [tokens=3000]")) for _ in range(5)]
    await until(lambda: harness.worker.active == 2 and harness.worker.queued == 2)
    _, slots = await harness.get("/slots")
    assert [slot["state"] for slot in slots] == ["decoding"] * 2 + ["queued"] * 3
    assert [slot["id"] for slot in slots] == [0, 1, 2, 3, 4]
    for task in busy:
        task.cancel()
    await harness.idle()


async def test_cache_and_slots_of_a_lost_worker_are_a_503(harness: Harness):
    await harness.start()
    await harness.worker.stop()
    await until(lambda: harness.context.registry.default().state != "ready")
    for path in ("/slots", "/v1/cache/stats"):
        status, reply = await harness.get(path)
        assert (status, reply["error"]["type"]) == (503, "server_error")
