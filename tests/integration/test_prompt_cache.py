"""Reusing the prefixes of earlier prompts changes the time to first token, not the answer."""

from __future__ import annotations

import asyncio

import pytest

from tests import checkpoint
from tests.client import GREEDY, assert_same, connect
from tests.prompt import make_prompt
from tests.server import serve_fleet
from tests.wait import until

FIELDS = GREEDY | {"max_tokens": 16}
TINY_BYTES, DISK_BYTES = 400_000, 600_000


def turn(role, number, words=25):
    return {"role": role, "content": make_prompt(number, words)}


# A conversation whose system message alone is longer than the sliding window.
OPENING = [turn("system", 1, 60), turn("user", 2)]
LONG = [*OPENING, turn("assistant", 3), turn("user", 4), turn("assistant", 5), turn("user", 6)]


def edit(messages, index, number):
    return [*messages[:index], turn(messages[index]["role"], number), *messages[index + 1 :]]


def bill(line):
    """Return the messages of an agent that changes one line of its system message per call."""
    block = f"{make_prompt(7, 40)}\nx-billing: {line}\n{make_prompt(8, 40)}"
    return [{"role": "system", "content": block}, turn("user", 9)]


# A first conversation, and a second one that must give its cold text from the warm cache.
SCENARIOS = {
    "repeated": (LONG, LONG),
    "continued": (OPENING, [*OPENING, turn("assistant", 10), turn("user", 11)]),
    "edited": (LONG, edit(LONG, 3, 12)),
    "shortened": (LONG, LONG[:4]),
    "agent": (bill("cch=1a2b"), bill("cch=3c4d")),
}
# A cache that can't be trimmed serves only prompts that begin with all of it.
MISSES = {("sliding", "agent"), ("recurrent", "agent")}


@pytest.fixture(params=["llama", "sliding", "recurrent"])
async def family(request, client):
    client = client.having(model=request.param, **FIELDS)
    await client.reset_cache()
    return client


async def ask_cold(client, messages):
    answer = await client.ask("", messages=messages, cache_prompt=False)
    assert read_cached(answer) == 0
    return answer.text


def read_cached(answer):
    cached = answer.usage["prompt_tokens_details"]["cached_tokens"]
    assert 0 <= cached < answer.usage["prompt_tokens"]
    return cached


async def read_stats(client):
    name = client.fields["model"]
    status, stats = await client.get(f"/v1/cache/stats?model={name}")
    assert status == 200
    return stats


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_warm_prompt_gives_the_cold_text(family, scenario):
    first, second = SCENARIOS[scenario]
    cold = [await ask_cold(family, messages) for messages in (first, second)]
    one = await family.ask("", messages=first)
    other = await family.ask_stream("", messages=second)
    assert read_cached(one) == 0
    missed = (family.fields["model"], scenario) in MISSES
    assert (read_cached(other) > 30) is not missed
    assert [one.text, other.text] == cold


async def test_simultaneous_requests_with_a_shared_prefix_do_not_mix(family):
    several = [[*LONG[:-1], turn("user", number)] for number in range(20, 26)]
    cold = [await ask_cold(family, messages) for messages in several]
    for _ in range(2):
        warm = await asyncio.gather(*(family.ask("", messages=messages) for messages in several))
        assert [answer.text for answer in warm] == cold
    assert all(read_cached(answer) > 30 for answer in warm)


async def test_cache_prompt_false_neither_reads_nor_writes_the_cache(family):
    await family.ask("", messages=OPENING)
    before = await read_stats(family)
    refusals = [
        {"cache_prompt": False},
        {"extra_body": {"cache_prompt": False}},
        {"cache_prompt": False, "extra_body": {"cache_prompt": True}},
    ]
    for fields in refusals:
        for messages in (OPENING, LONG):
            answer = await family.ask("", messages=messages, **fields)
            assert read_cached(answer) == 0
    assert await read_stats(family) == before
    answer = await family.ask("", messages=OPENING, extra_body={"cache_prompt": "no boolean"})
    assert read_cached(answer) > 0


SESSIONS = ({"prompt_cache_key": "a"}, {"prompt_cache_key": "b"}, {"user": "c"}, {})


async def test_sessions_share_the_cache(client):
    client = client.having(model="llama", **FIELDS)
    await client.reset_cache()
    answers = [await client.ask("", messages=LONG, **fields) for fields in SESSIONS]
    assert [read_cached(answer) > 0 for answer in answers] == [False, True, True, True]
    assert len({answer.text for answer in answers}) == 1


async def test_keys_do_not_share_the_cache_nor_do_sessions_that_are_told_apart(make_folder):
    worker = {"name": "text", "model": str(checkpoint.build("llama"))}
    gateway = {"api_key": ["k1", "k2"], "prompt_cache_scope": "session"}
    with serve_fleet(make_folder(), worker, gateway=gateway) as server:
        async with connect(server.url, **FIELDS) as client:
            for key in ("k1", "k2"):
                headers = {"Authorization": f"Bearer {key}"}
                for fields in SESSIONS:
                    first = await client.ask("", headers=headers, messages=LONG, **fields)
                    again = await client.ask("", headers=headers, messages=LONG, **fields)
                    assert read_cached(first) == 0
                    assert read_cached(again) > 0
                    assert again.text == first.text


async def test_statistics_count_and_a_reset_empties_the_cache(client):
    client = client.having(model="llama", **FIELDS)
    await client.reset_cache()
    before = await read_stats(client)
    assert (before["enabled"], before["entries"], before["bytes"]) == (True, 0, 0)
    await client.ask("", messages=LONG)
    answer = await client.ask("", messages=LONG)
    after = await read_stats(client)
    grown = {name: after[name] - before[name] for name in ("lookups", "hits", "inserts")}
    assert grown == {"lookups": 2, "hits": 1, "inserts": 1}
    assert after["tokens_reused"] - before["tokens_reused"] == read_cached(answer)
    assert after["entries"] == 1
    assert 0 < after["bytes"] < after["capacity_bytes"]

    for freed_entries in (1, 0):
        async with client.session.post("/v1/cache/reset?model=llama") as reply:
            report = await reply.json()
        assert report["cleared"] is True
        assert report["freed_entries"] == freed_entries
        assert (report["freed_bytes"] > 0) is (freed_entries > 0)
    assert read_cached(await client.ask("", messages=LONG)) == 0


# ------------------------------------------------- other cache settings


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("prefixes")


@pytest.fixture(scope="module")
def server(make_folder, store):
    """A server with three workers whose caches are tiny, off, and on disk."""
    options = {
        "tiny": {"prompt_cache_capacity_bytes": TINY_BYTES},
        "off": {"cache_prompt": False},
        "disk": {"prompt_cache_dir": str(store), "prompt_cache_dir_bytes": DISK_BYTES},
    }
    workers = [
        {"name": name, "alias": [name], "model": str(checkpoint.build("llama")), **more}
        for name, more in options.items()
    ]
    with serve_fleet(make_folder(), *workers) as server:
        yield server


@pytest.fixture
async def other(server):
    async with connect(server.url, **FIELDS) as client:
        yield client


async def test_texts_stay_the_same_while_entries_are_evicted(other):
    client = other.having(model="tiny")
    prompts = [make_prompt(number, 150) for number in range(8)]
    cold = [await client.ask(prompt, cache_prompt=False) for prompt in prompts]
    for _ in range(2):
        assert_same([await client.ask(prompt) for prompt in prompts], cold)
        assert read_cached(await client.ask(prompts[-1])) > 0
    stats = await read_stats(client)
    assert stats["evictions_lru"] > 8
    assert 0 < stats["bytes"] <= stats["capacity_bytes"] == TINY_BYTES

    await client.ask(make_prompt(9, 1500))
    assert (await read_stats(client))["rejections_oversized"] > 0


async def test_a_disabled_cache_reports_in_the_same_format(other):
    on, off = other.having(model="tiny"), other.having(model="off")
    for _ in range(2):
        answer = await off.ask("", messages=LONG, cache_prompt=True)
        assert "prompt_tokens_details" not in answer.usage
    stats = await read_stats(off)
    assert stats.keys() == (await read_stats(on)).keys()
    assert stats["enabled"] is False
    assert not stats["lookups"] and not stats["inserts"]
    async with other.session.post("/v1/cache/reset?model=off") as reply:
        assert await reply.json() == {"cleared": True, "freed_bytes": 0, "freed_entries": 0}


async def test_a_restarted_worker_reuses_complete_entries_on_disk(server, other, store):
    client = other.having(model="disk")
    whole, damaged = make_prompt(1, 60), make_prompt(2, 60)
    cold = [await client.ask(whole)]
    (entry,) = await find_entries(store, 1)
    cold.append(await client.ask(damaged))
    (victim,) = set(await find_entries(store, 2)) - {entry}
    content = bytearray(victim.read_bytes())
    content[-20] ^= 1
    victim.write_bytes(content)
    contents = {
        "notes.txt": b"hello",
        "empty.safetensors": b"",
        "foreign.safetensors": (2).to_bytes(8, "little") + b"[]",
        "torn.safetensors": entry.read_bytes()[:-100],
    }
    foreign = [entry.parent / name for name in contents]
    for path in foreign:
        path.write_bytes(contents[path.name])

    server.kill_worker("disk")
    await until(lambda: "worker lost" in server.log.read_text())
    await asyncio.to_thread(server.wait_until_ready)
    assert not any(path.exists() for path in foreign)
    warm = [await client.ask(whole), await client.ask(damaged)]
    assert [answer.text for answer in warm] == [answer.text for answer in cold]
    assert read_cached(warm[0]) > 50
    assert read_cached(warm[1]) == 0
    removed = f"removed {victim.name} from the prompt cache folder: checksum differs"
    assert removed in server.log.read_text()


async def test_the_cache_on_disk_is_limited(other, store):
    client = other.having(model="disk")
    for number in range(10, 20):
        await client.ask(make_prompt(number, 150))
    await until(lambda: total_bytes(store) > DISK_BYTES / 2)
    await asyncio.sleep(0.5)  # until all writes are done
    assert total_bytes(store) <= DISK_BYTES


async def find_entries(store, count):
    found = []

    def have_come():
        found[:] = [p for p in store.rglob("*.safetensors") if not p.name.startswith(".")]
        return len(found) == count

    await until(have_come)
    return found


def total_bytes(store):
    return sum(path.stat().st_size for path in store.rglob("*.safetensors"))
