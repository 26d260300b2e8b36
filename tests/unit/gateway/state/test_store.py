"""The same tests for the store in memory and the one in a real Redis server."""

from __future__ import annotations

import asyncio
import contextlib
import itertools

import pytest
from redis.asyncio import Redis

from gateway.state.memory import MemoryStore
from gateway.state.redis_store import RedisStore
from gateway.state.store import StoreLimits
from shared.errors import ServiceError

MANY = StoreLimits(max_entries=1000, max_bytes=1 << 20, ttl_s=3600)
_NAMES = itertools.count()


class Kept:
    """Makes stores of one kind; each starts empty."""

    async def close(self) -> None:
        """Do nothing."""


class InMemory(Kept):
    def __init__(self):
        self.now_s = 0.0

    def make(self, limits=MANY):
        return MemoryStore(limits, lambda: self.now_s)

    async def let_pass(self, seconds):
        self.now_s += seconds


class InRedis(Kept):
    def __init__(self, url):
        self.url = url
        self.stores = []

    def make(self, limits=MANY, **options):
        self.stores.append(RedisStore(f"test{next(_NAMES)}", self.url, limits, **options))
        return self.stores[-1]

    async def let_pass(self, seconds):
        """Age all entries by this time, since Redis' clock can't be set."""
        client = Redis.from_url(self.url)
        for index in await client.keys("mlxcel:*:used"):
            value = index.removesuffix(b"used") + b"value:"
            for key, used in await client.zrange(index, 0, -1, withscores=True):
                await client.zadd(index, {key: used - seconds * 1_000_000})
                left_ms = await client.pttl(value + key)
                if left_ms > 0:
                    await client.pexpire(value + key, max(int(left_ms - seconds * 1000), 1))
        await asyncio.sleep(0.005)
        await client.aclose()

    async def close(self):
        for store in self.stores:
            await store.close()


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.redis)])
async def kept(request):
    if request.param == "memory":
        made = InMemory()
    else:
        made = InRedis(request.getfixturevalue("redis_server").url)
    yield made
    await made.close()


async def keys(store, names):
    """Return the keys that exist. Reading counts as a use."""
    return "".join([name for name in names if await store.get(name) is not None])


async def test_a_value_is_the_last_one_put(kept):
    store = kept.make()
    assert await store.get("a") is None
    assert await store.put("a", b"one\x00\xff")
    assert await store.get("a") == b"one\x00\xff"
    assert await store.put("a", b"")
    assert await store.get("a") == b""


async def test_keys_are_any_text(kept):
    store = kept.make()
    for name in ("ключ 🔑", "*", "a:b{c}", "", "x" * 5000):
        assert await store.put(name, name.encode())
    for name in ("ключ 🔑", "*", "a:b{c}", "", "x" * 5000):
        assert await store.get(name) == name.encode()


async def test_append_creates_and_extends_values(kept):
    store = kept.make()
    assert await store.append("a", b"one ")
    assert await store.append("a", b"two")
    assert await store.get("a") == b"one two"


async def test_concurrent_appends_all_take_effect(kept):
    store = kept.make()
    await asyncio.gather(*(store.append("a", bytes([n])) for n in range(100)))
    assert sorted(await store.get("a")) == list(range(100))


async def test_a_value_is_deleted_once(kept):
    store = kept.make()
    await store.put("a", b"1")
    assert await store.delete("a")
    assert not await store.delete("a")
    assert await store.get("a") is None


async def test_excess_entries_evict_the_least_recently_used(kept):
    store = kept.make(StoreLimits(3, 1 << 20, 3600))
    for name in "abc":
        await store.put(name, b"x")
    await store.get("a")
    await store.append("b", b"y")
    await store.put("d", b"x")
    assert await keys(store, "abcd") == "abd"


async def test_excess_bytes_evict_the_least_recently_used(kept):
    store = kept.make(StoreLimits(1000, 100, 3600))
    for name in "abcd":
        await store.put(name, b"x" * 25)
    await store.put("e", b"x" * 26)
    assert await keys(store, "abcde") == "cde"
    # Evicted, deleted and replaced values have freed their bytes.
    await store.delete("c")
    await store.put("d", b"x" * 5)
    await store.put("f", b"x" * 69)
    assert await keys(store, "def") == "def"


async def test_a_growing_value_evicts_others_and_never_itself(kept):
    store = kept.make(StoreLimits(1000, 100, 3600))
    await store.put("grows", b"x" * 40)
    await store.put("other", b"x" * 40)
    assert await store.append("grows", b"x" * 60)
    assert await store.get("other") is None
    assert len(await store.get("grows")) == 100
    assert not await store.append("grows", b"x")
    assert len(await store.get("grows")) == 100


async def test_a_value_larger_than_the_store_is_not_stored(kept):
    store = kept.make(StoreLimits(1000, 100, 3600))
    await store.put("a", b"old")
    assert not await store.put("a", b"x" * 101)
    assert await store.get("a") == b"old"


async def test_unused_values_expire_and_uses_extend_them(kept):
    store = kept.make(StoreLimits(1000, 1 << 20, 100))
    for name in "abc":
        await store.put(name, b"x")
    await kept.let_pass(60)
    await store.get("a")
    await store.append("b", b"y")
    await kept.let_pass(60)
    assert await keys(store, "abc") == "ab"
    assert not await store.delete("c")
    await kept.let_pass(101)
    assert await store.append("b", b"new")
    assert await store.get("b") == b"new"


async def test_expired_values_free_their_bytes(kept):
    store = kept.make(StoreLimits(2, 100, 100))
    await store.put("a", b"x" * 50)
    await kept.let_pass(99)
    await store.put("b", b"x" * 50)
    await kept.let_pass(2)
    await store.put("c", b"x" * 50)
    assert await keys(store, "abc") == "bc"


async def test_without_a_ttl_nothing_expires(kept):
    store = kept.make(StoreLimits(1000, 1 << 20, 0))
    await store.put("a", b"x")
    await kept.let_pass(10**6)
    assert await store.get("a") == b"x"


# ------------------------------------------------------------------------- Redis alone


@pytest.fixture
async def in_redis(redis_server):
    made = InRedis(redis_server.url)
    yield made
    await made.close()


@contextlib.contextmanager
def frozen(server):
    server.freeze()
    try:
        yield
    finally:
        server.thaw()


@pytest.mark.redis
async def test_two_gateways_share_a_store_and_stores_of_other_names_do_not(redis_server):
    one, same = (RedisStore("shared", redis_server.url, MANY) for _ in range(2))
    other = RedisStore("else", redis_server.url, MANY)
    await one.put("a", b"1")
    await asyncio.gather(*(s.append("b", b"x") for s in (one, same) for _ in range(20)))
    assert await same.get("a") == b"1"
    assert await same.get("b") == b"x" * 40
    assert await other.get("a") is None
    for store in (one, same, other):
        await store.close()


@pytest.mark.redis
async def test_a_server_that_does_not_answer_is_unavailable_in_time(redis_server, in_redis):
    store = in_redis.make(timeout_s=0.3)
    await store.put("a", b"1")
    with frozen(redis_server):
        for call in (store.get("a"), store.put("a", b"2"), store.append("a", b"3")):
            with pytest.raises(ServiceError, match="can't be reached") as caught:
                await asyncio.wait_for(call, 30)
            assert caught.value.code == "store_unavailable"
        with pytest.raises(ServiceError):
            await store.delete("a")
        # A connection abandoned during a reply is not used again.
        task = asyncio.create_task(store.get("a"))
        await asyncio.sleep(0.05)
        task.cancel()
    await store.put("b", b"b")
    assert await store.get("b") == b"b"


@pytest.mark.redis
async def test_a_restarted_server_is_used_again(redis_server, in_redis):
    store = in_redis.make()
    await store.put("a", b"1")
    redis_server.stop()
    with pytest.raises(ServiceError) as caught:
        await store.get("a")
    assert caught.value.code == "store_unavailable"
    redis_server.start()
    assert await store.get("a") is None
    assert await store.put("a", b"2")
    assert await store.get("a") == b"2"


@pytest.mark.redis
async def test_missing_scripts_are_loaded_again(redis_server, in_redis):
    store = in_redis.make()
    await store.put("a", b"1")
    client = Redis.from_url(redis_server.url)
    await client.script_flush()
    await client.aclose()
    assert await store.get("a") == b"1"
