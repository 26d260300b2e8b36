"""Which rows go into a micro-batch, and whose turn it is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.pb import common_pb2 as common
from workers.embed.batcher import BatchLimits, Work, bucket, pick
from workers.embed.row import Row

LIMITS = BatchLimits(8, 256)
LOW, NORMAL, HIGH = common.PRIORITY_LOW, common.PRIORITY_NORMAL, common.PRIORITY_HIGH


def work(*lengths, arrival=0, priority=NORMAL):
    rows = [Row(np.zeros(length, np.int32)) for length in lengths]
    return Work(rows, priority, arrival, None)


def lengths(batch):
    return [len(work.rows[index]) for work, index in batch]


def settle(batch):
    """Give every row of a batch a result: its length and its index."""
    for item, index in batch:
        item.keep(index, np.array([len(item.rows[index]), index], np.float32))


async def test_calls_that_wait_together_share_a_micro_batch():
    works = [work(5, arrival=number) for number in range(6)]
    batch = pick(works, LIMITS)
    assert [item for item, _ in batch] == works


async def test_a_small_call_waits_for_one_micro_batch_of_a_large_one():
    large = work(*[20] * 2048, arrival=1)
    settle(pick([large], LIMITS))
    small = work(100, arrival=2)
    batch = pick([large, small], LIMITS)
    assert batch[0] == (small, 0)
    settle(batch)
    assert small.ended and not large.ended


async def test_a_higher_class_goes_first():
    low, high = work(5, arrival=1, priority=LOW), work(200, arrival=2, priority=HIGH)
    assert pick([low, high], LIMITS)[0][0] is high


async def test_a_text_longer_than_the_limit_runs_alone():
    works = [work(4000), work(3000, arrival=1)]
    assert lengths(pick(works, LIMITS)) == [4000]


async def test_short_texts_are_not_padded_to_the_length_of_long_ones():
    works = [work(128), work(*[4] * 7, arrival=1)]
    assert lengths(pick(works, LIMITS)) == [128]


async def test_results_come_in_the_order_of_the_request():
    one = work(3, 90, 7, 200, 41, 8)
    while one.left:
        settle(pick([one], LIMITS))
    assert (await one.answer).tolist() == [[3, 0], [90, 1], [7, 2], [200, 3], [41, 4], [8, 5]]


@given(st.data())
async def test_any_mix_is_served_once_within_the_limits(data):
    limits = BatchLimits(data.draw(st.integers(1, 9)), data.draw(st.integers(8, 600)))
    drawn = data.draw(
        st.lists(st.lists(st.integers(1, 300), min_size=1, max_size=12), min_size=1, max_size=6)
    )
    works = [work(*each, arrival=number) for number, each in enumerate(drawn)]
    seen = [[] for _ in works]
    while waiting := [each for each in works if each.left]:
        batch = pick(waiting, limits)
        assert 1 <= len(batch) <= limits.rows
        width = bucket(max(lengths(batch)))
        assert len(batch) == 1 or width * len(batch) <= limits.tokens
        for item, index in batch:
            seen[works.index(item)].append(index)
    assert [sorted(each) for each in seen] == [list(range(len(each))) for each in drawn]


@pytest.mark.parametrize(
    ("length", "width"), [(1, 4), (8, 8), (9, 12), (64, 64), (65, 72), (129, 144), (512, 512)]
)
def test_lengths_are_padded_to_a_few_widths(length, width):
    assert bucket(length) == width


@given(st.integers(1, 10_000))
def test_no_width_is_an_eighth_more_than_the_length_but_for_the_shortest(length):
    assert length <= bucket(length) <= max(length * 1.125, length + 3)
