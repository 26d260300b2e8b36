"""The prompt cache's entries: what is found, what is kept, what goes, and what is counted."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.models.cache import KVCache, RotatingKVCache

from workers.text.cache.prefix_cache import PrefixCache, PrefixLimits

NAME = b"one model, one user"
_WINDOW = 8


class Clock:
    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


def row(ids, kind=KVCache):
    """Return the cache of one row that was fed `ids`, with the ids as its keys."""
    part = RotatingKVCache(_WINDOW) if kind is RotatingKVCache else KVCache()
    for token in ids:
        value = mx.full((1, 1, 1, 4), float(token))
        part.update_and_fetch(value, value)
    return [part]


def ids_of(cache):
    return cache[0].keys_and_values()[0][0, 0, :, 0].tolist()


def make_cache(clock=None, **limits):
    values = {"capacity_bytes": 1 << 20, "max_entries": 10, "ttl_s": 60.0, "min_tokens": 2}
    return PrefixCache(PrefixLimits(**(values | limits)), clock=clock or Clock())


def add(cache, ids, kind=KVCache, namespace=NAME):
    cache.add(namespace, ids, row(ids, kind))


def test_a_prompt_gets_what_it_shares_with_an_entry_and_the_entry_stays_whole():
    cache = make_cache()
    add(cache, [1, 2, 3, 4, 5])
    found, common = cache.find(NAME, [1, 2, 3, 9, 9])
    assert common == 3
    assert ids_of(found) == [1, 2, 3]
    found[0].update_and_fetch(mx.zeros((1, 1, 1, 4)), mx.zeros((1, 1, 1, 4)))
    again, common = cache.find(NAME, [1, 2, 3, 4, 5, 6])
    assert common == 5
    assert ids_of(again) == [1, 2, 3, 4, 5]


def test_a_hit_leaves_one_token_to_feed():
    cache = make_cache()
    add(cache, [1, 2, 3, 4])
    assert cache.find(NAME, [1, 2, 3, 4])[1] == 3


def test_a_wrapped_window_serves_only_prompts_that_begin_with_all_of_it():
    cache, ids = make_cache(), list(range(12))
    add(cache, ids, RotatingKVCache)
    assert cache.find(NAME, [*ids[:10], 99, 99]) is None
    assert cache.find(NAME, ids) is None
    assert cache.find(NAME, [*ids, 99])[1] == 12


def test_the_longest_of_several_entries_is_used():
    cache = make_cache()
    add(cache, [1, 2, 3, 7])
    add(cache, [1, 2, 3, 4, 5])
    assert cache.find(NAME, [1, 2, 3, 4, 5, 6])[1] == 5


def test_nobody_gets_what_belongs_to_another_namespace():
    cache = make_cache()
    add(cache, [1, 2, 3, 4])
    assert cache.find(b"another user", [1, 2, 3, 4, 5]) is None


def test_a_beginning_shorter_than_the_minimum_is_neither_kept_nor_used():
    cache = make_cache(min_tokens=4)
    add(cache, [1, 2, 3])
    assert cache.stats().inserts == 0
    add(cache, [1, 2, 3, 4, 5])
    assert cache.find(NAME, [1, 2, 3, 9, 9]) is None


def test_an_entry_that_another_covers_is_not_kept_twice():
    cache = make_cache()
    add(cache, [1, 2, 3])
    add(cache, [1, 2, 3, 4])
    add(cache, [1, 2])
    stats = cache.stats()
    assert stats.entries == 1
    assert stats.bytes == cache.nbytes == sum(part.nbytes for part in row([1, 2, 3, 4]))


def test_snapshots_of_one_prompt_are_kept_beside_each_other():
    cache = make_cache()
    add(cache, list(range(10)), RotatingKVCache)
    add(cache, list(range(14)), RotatingKVCache)
    assert cache.stats().entries == 2
    assert cache.find(NAME, [*range(10), 99])[1] == 10


def test_the_longest_unused_entry_goes_first_and_a_hit_refreshes():
    cache = make_cache(max_entries=2)
    add(cache, [1, 1, 1])
    add(cache, [2, 2, 2])
    assert cache.find(NAME, [1, 1, 1, 0]) is not None
    add(cache, [3, 3, 3])
    assert cache.find(NAME, [2, 2, 2, 0]) is None
    assert cache.find(NAME, [1, 1, 1, 0]) is not None
    assert cache.stats().evictions_lru == 1


def test_entries_that_nobody_used_for_long_are_gone():
    clock = Clock()
    cache = make_cache(clock, ttl_s=60.0)
    add(cache, [1, 1, 1])
    clock.now_s += 40
    add(cache, [2, 2, 2])
    clock.now_s += 40
    assert cache.find(NAME, [1, 1, 1, 0]) is None
    assert cache.find(NAME, [2, 2, 2, 0]) is not None
    assert cache.stats().evictions_ttl == 1


def test_what_is_larger_than_the_whole_cache_is_refused_and_counted():
    cache = make_cache(capacity_bytes=64)
    add(cache, [1, 2, 3])
    assert (cache.stats().rejections_oversized, cache.stats().entries) == (1, 0)


def test_room_is_made_for_running_sequences():
    cache = make_cache()
    for first in range(4):
        add(cache, [first, 7, 7])
    one = cache.nbytes // 4
    cache.shrink(2 * one)
    assert cache.nbytes == 2 * one
    assert cache.find(NAME, [0, 7, 7, 0]) is None
    assert cache.find(NAME, [3, 7, 7, 0]) is not None


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_never_kept(number):
    cache = make_cache()
    part = row([1, 2, 3])
    part[0].values = part[0].values + number
    cache.add(NAME, [1, 2, 3], part)
    assert cache.stats().entries == 0


def test_a_reset_tells_what_it_freed_and_keeps_the_counters():
    cache = make_cache()
    add(cache, [1, 2, 3])
    held = cache.nbytes
    assert cache.reset() == (held, 1)
    assert (cache.nbytes, cache.stats().entries, cache.stats().inserts) == (0, 0, 1)


@given(
    st.lists(
        st.tuples(st.booleans(), st.lists(st.integers(0, 2), min_size=1, max_size=12)), max_size=20
    )
)
def test_what_is_found_is_always_a_beginning_of_the_prompt(steps):
    cache = make_cache(max_entries=4)
    for adds, ids in steps:
        if adds:
            add(cache, ids)
            continue
        found = cache.find(NAME, ids)
        if found is not None:
            assert ids_of(found[0]) == ids[: found[1]]
            assert 2 <= found[1] < len(ids)
    stats = cache.stats()
    assert stats.entries <= 4
    assert stats.hits <= stats.lookups
    assert cache.nbytes == sum(entry.nbytes for entry in cache._entries)
    lengths = [np.asarray(entry.tokens).size for entry in cache._entries]
    assert all(length >= 2 for length in lengths)
