"""What a worker holds, seen over HTTP: its prompt cache and its slots."""

from __future__ import annotations

import asyncio

from tests.contract.harness import House
from tests.wait import until


async def test_cache_statistics_have_every_field_of_the_reference(house: House):
    house.add_worker(replicas=2)
    await house.start()
    status, report = await house.get("/v1/cache/stats")
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


async def test_resetting_the_cache_tells_what_was_freed(house: House):
    await house.start()
    async with house.session.post("/v1/cache/reset") as reply:
        assert reply.status == 200
        assert await reply.json() == {"cleared": True, "freed_bytes": 100, "freed_entries": 2}


async def test_slots_are_followed_by_what_waits_for_one(house: House):
    house.add_worker(slots=2)
    await house.start()
    _, idle = await house.get("/slots")
    assert [slot["state"] for slot in idle] == ["idle", "idle"]
    assert idle[0] == {
        "id": 0,
        "state": "idle",
        "model": "fake",
        "context_size": 4096,
        "is_processing": False,
    }
    busy = [asyncio.create_task(house.text("x [tokens=3000]")) for _ in range(5)]
    await until(lambda: house.worker.active == 2 and house.worker.queued == 2)
    _, slots = await house.get("/slots")
    assert [slot["state"] for slot in slots] == ["decoding"] * 2 + ["queued"] * 3
    assert [slot["id"] for slot in slots] == [0, 1, 2, 3, 4]
    for task in busy:
        task.cancel()
    await house.idle()


async def test_state_of_a_worker_that_is_away_is_a_clear_503(house: House):
    await house.start()
    await house.worker.stop()
    await until(lambda: house.context.registry.default().state != "ready")
    for path in ("/slots", "/v1/cache/stats"):
        status, reply = await house.get(path)
        assert (status, reply["error"]["type"]) == (503, "server_error")
