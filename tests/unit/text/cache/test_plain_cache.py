"""Joining rows gives what mlx-lm's own merging and extending give."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.models.cache import BatchKVCache, KVCache

from workers.text.cache import plain_cache

HEADS, KEY_SIZE, VALUE_SIZE = 2, 4, 3
LENGTHS = st.lists(st.integers(1, 300), min_size=1, max_size=4)


def append(cache, rows, tokens):
    """Feed random keys and values."""
    shape = (rows, HEADS, tokens)
    return cache.update_and_fetch(
        mx.random.normal((*shape, KEY_SIZE)), mx.random.normal((*shape, VALUE_SIZE))
    )


def make(length):
    cache = KVCache()
    append(cache, 1, length)
    return cache


def extended(cache, others):
    """Return what mlx-lm makes of them."""
    rows = cache if isinstance(cache, BatchKVCache) else cache.merge([cache])
    for other in others:
        rows.extend(other.merge([other]))
    return rows


def assert_alike(left, right):
    for mine, its in zip(left.keys_and_values(), right.keys_and_values(), strict=True):
        assert np.array_equal(np.array(mine), np.array(its))
    assert left.offset.tolist() == right.offset.tolist()
    assert left.left_padding.tolist() == right.left_padding.tolist()
    assert left.size() == right.size()


@settings(max_examples=60, deadline=None)
@given(LENGTHS, LENGTHS, LENGTHS)
def test_rows_of_any_lengths_keep_their_keys_and_values(first, second, third):
    start, *rest = map(make, first)
    joined = plain_cache.join(start, rest)
    expected = extended(start, rest)
    for lengths in (second, third):
        # A token for every row; both get the same.
        mx.random.seed(len(first) + sum(lengths))
        append(joined, joined.offset.size, 1)
        mx.random.seed(len(first) + sum(lengths))
        append(expected, expected.offset.size, 1)
        others = [make(length) for length in lengths]
        joined, expected = plain_cache.join(joined, others), extended(expected, others)
        assert_alike(joined, expected)


def test_the_next_token_finds_room():
    joined = plain_cache.join(make(256), [make(10)])
    keys = joined.keys
    append(joined, 2, 1)
    assert joined.keys.shape == keys.shape
    assert joined.size() == 257
