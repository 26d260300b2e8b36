"""Which rows form a micro-batch, and in which order calls are served."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.pb import common_pb2 as common
from workers.embed.batcher import BatchLimits, EncoderJob, bucket, pick
from workers.embed.row import Row

LIMITS = BatchLimits(8, 256)
LOW, NORMAL, HIGH = common.PRIORITY_LOW, common.PRIORITY_NORMAL, common.PRIORITY_HIGH


def make_job(*lengths, arrival=0, priority=NORMAL):
    rows = [Row(np.zeros(length, np.int32)) for length in lengths]
    return EncoderJob(rows, priority, arrival, None)


def lengths(batch):
    return [len(job.rows[index]) for job, index in batch]


def settle(batch):
    """Set the result of every row of a batch: its length and its index."""
    for item, index in batch:
        item.keep(index, np.array([len(item.rows[index]), index], np.float32))


async def test_waiting_calls_share_a_micro_batch():
    jobs = [make_job(5, arrival=number) for number in range(6)]
    batch = pick(jobs, LIMITS)
    assert [item for item, _ in batch] == jobs


async def test_a_small_call_waits_for_one_micro_batch_of_a_large_one():
    large = make_job(*[20] * 2048, arrival=1)
    settle(pick([large], LIMITS))
    small = make_job(100, arrival=2)
    batch = pick([large, small], LIMITS)
    assert batch[0] == (small, 0)
    settle(batch)
    assert small.ended and not large.ended


async def test_a_higher_class_is_served_first():
    low, high = make_job(5, arrival=1, priority=LOW), make_job(200, arrival=2, priority=HIGH)
    assert pick([low, high], LIMITS)[0][0] is high


async def test_a_text_longer_than_the_limit_runs_alone():
    jobs = [make_job(4000), make_job(3000, arrival=1)]
    assert lengths(pick(jobs, LIMITS)) == [4000]


async def test_short_texts_are_not_padded_to_the_length_of_long_ones():
    jobs = [make_job(128), make_job(*[4] * 7, arrival=1)]
    assert lengths(pick(jobs, LIMITS)) == [128]


async def test_results_are_in_the_order_of_the_request():
    one = make_job(3, 90, 7, 200, 41, 8)
    while one.left:
        settle(pick([one], LIMITS))
    assert (await one.answer).tolist() == [[3, 0], [90, 1], [7, 2], [200, 3], [41, 4], [8, 5]]


@given(st.data())
async def test_any_mix_is_served_once_within_the_limits(data):
    limits = BatchLimits(data.draw(st.integers(1, 9)), data.draw(st.integers(8, 600)))
    drawn = data.draw(
        st.lists(st.lists(st.integers(1, 300), min_size=1, max_size=12), min_size=1, max_size=6)
    )
    jobs = [make_job(*each, arrival=number) for number, each in enumerate(drawn)]
    seen = [[] for _ in jobs]
    while waiting := [each for each in jobs if each.left]:
        batch = pick(waiting, limits)
        assert 1 <= len(batch) <= limits.rows
        width = bucket(max(lengths(batch)))
        assert len(batch) == 1 or width * len(batch) <= limits.tokens
        for item, index in batch:
            seen[jobs.index(item)].append(index)
    assert [sorted(each) for each in seen] == [list(range(len(each))) for each in drawn]


@pytest.mark.parametrize(
    ("length", "width"), [(1, 4), (8, 8), (9, 12), (64, 64), (65, 72), (129, 144), (512, 512)]
)
def test_lengths_are_padded_to_a_few_widths(length, width):
    assert bucket(length) == width


@given(st.integers(1, 10_000))
def test_a_width_is_at_most_an_eighth_more_than_the_length_unless_short(length):
    assert length <= bucket(length) <= max(length * 1.125, length + 3)
