"""Whose the sequences of an engine are: who is told what, and who may drop what."""

from __future__ import annotations

import pytest

from shared.pb import worker_pb2
from tests.unit.text import tiny_tokenizer
from tests.unit.text.request import make_sequence
from workers.text.engine.active_requests import ActiveRequests
from workers.text.vocabulary import Vocabulary

VOCABULARY = Vocabulary(tiny_tokenizer.byte_level(), 259)


@pytest.fixture
def counters():
    return worker_pb2.Counters()


@pytest.fixture
def roster(counters):
    return ActiveRequests(counters)


@pytest.fixture
def enter(roster):
    """Take in a sequence that has started, so that there is something to tell of it."""

    def enter(gateway_id, key, timeout_ms=0):
        sequence = make_sequence(VOCABULARY)
        sequence.request.gateway_id, sequence.request.key = gateway_id, key
        sequence.request.timeout_ms = timeout_ms
        roster.enter(sequence)
        sequence.start(1)
        return sequence

    return enter


def keys(frames):
    return {gateway_id: [frame.key for frame in own] for gateway_id, own in frames.items()}


def failures(frames):
    return {
        frame.key: frame.events[-1].failed.error.code for own in frames.values() for frame in own
    }


def test_each_gateway_hears_of_its_own_requests_and_of_each_step_once(roster, enter):
    enter("a", 1), enter("b", 1), enter("a", 2)
    assert keys(roster.take_frames()) == {"a": [1, 2], "b": [1]}
    assert roster.take_frames() == {}


def test_a_gateway_drops_one_of_its_requests_or_all_of_them(roster, enter, counters):
    first, other, second = enter("a", 1), enter("b", 1), enter("a", 2)
    roster.cancel("a", 1)
    assert (first.ended, second.ended, other.ended) == (True, False, False)
    roster.cancel("a", None)
    assert (second.ended, other.ended) == (True, False)
    # The first was dropped before.
    assert counters.cancelled == 2
    assert keys(roster.take_frames()) == {"b": [1]}


def test_a_second_attempt_takes_the_place_of_the_first(roster, enter, counters):
    first, second = enter("a", 1), enter("a", 1)
    assert (first.ended, second.ended) == (True, False)
    assert keys(roster.take_frames()) == {"a": [1]}
    assert counters.cancelled == 0


def test_a_request_whose_time_is_up_fails_and_is_forgotten(roster, enter, counters):
    hasty = enter("a", 1, timeout_ms=10)
    enter("a", 2)
    roster.expire(hasty.deadline_s - 0.001)
    assert not hasty.ended
    for _ in range(2):
        roster.expire(hasty.deadline_s + 0.001)
    assert counters.failed == 1
    assert failures(roster.take_frames()) == {1: "timeout", 2: ""}
    assert roster.take_frames() == {}


def test_when_the_engine_fails_everybody_is_told(roster, enter, counters):
    enter("a", 1), enter("b", 2)
    roster.cancel("b", 2)
    roster.fail_all()
    assert failures(roster.take_frames()) == {1: "engine_failed"}
    assert counters.failed == 1


def test_what_has_ended_well_is_counted_once(roster, enter, counters):
    sequence = enter("a", 1)
    sequence.max_tokens = 1
    sequence.take_token(40, None)
    for _ in range(2):
        roster.take_frames()
    assert counters.sequences_completed == 1
