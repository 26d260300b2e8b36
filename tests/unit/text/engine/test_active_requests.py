"""Sequences by gateway: which frames each gets, and what each may cancel."""

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
def active_requests(counters):
    return ActiveRequests(counters)


@pytest.fixture
def enter(active_requests):
    """Add a sequence that has started, so that it has an event."""

    def enter(gateway_id, key, timeout_ms=0):
        sequence = make_sequence(VOCABULARY)
        sequence.request.gateway_id, sequence.request.key = gateway_id, key
        sequence.request.timeout_ms = timeout_ms
        active_requests.add(sequence)
        sequence.start(1)
        return sequence

    return enter


def keys(frames):
    return {gateway_id: [frame.key for frame in own] for gateway_id, own in frames.items()}


def failures(frames):
    return {
        frame.key: frame.events[-1].failed.error.code for own in frames.values() for frame in own
    }


def test_each_gateway_gets_the_frames_of_its_own_requests_once(active_requests, enter):
    enter("a", 1), enter("b", 1), enter("a", 2)
    assert keys(active_requests.take_frames()) == {"a": [1, 2], "b": [1]}
    assert active_requests.take_frames() == {}


def test_a_gateway_cancels_one_of_its_requests_or_all_of_them(active_requests, enter, counters):
    first, other, second = enter("a", 1), enter("b", 1), enter("a", 2)
    active_requests.cancel("a", 1)
    assert (first.ended, second.ended, other.ended) == (True, False, False)
    active_requests.cancel("a", None)
    assert (second.ended, other.ended) == (True, False)
    # The first was cancelled before.
    assert counters.cancelled == 2
    assert keys(active_requests.take_frames()) == {"b": [1]}


def test_a_second_attempt_replaces_the_first(active_requests, enter, counters):
    first, second = enter("a", 1), enter("a", 1)
    assert (first.ended, second.ended) == (True, False)
    assert keys(active_requests.take_frames()) == {"a": [1]}
    assert counters.cancelled == 0


def test_a_request_past_its_deadline_fails_and_is_removed(active_requests, enter, counters):
    expiring = enter("a", 1, timeout_ms=10)
    enter("a", 2)
    active_requests.expire(expiring.deadline_s - 0.001)
    assert not expiring.ended
    for _ in range(2):
        active_requests.expire(expiring.deadline_s + 0.001)
    assert counters.failed == 1
    assert failures(active_requests.take_frames()) == {1: "timeout", 2: ""}
    assert active_requests.take_frames() == {}


def test_when_the_engine_fails_every_request_fails(active_requests, enter, counters):
    enter("a", 1), enter("b", 2)
    active_requests.cancel("b", 2)
    active_requests.fail_all()
    assert failures(active_requests.take_frames()) == {1: "engine_failed"}
    assert counters.failed == 1


def test_a_completed_sequence_is_counted_once(active_requests, enter, counters):
    sequence = enter("a", 1)
    sequence.max_tokens = 1
    sequence.take_token(40, None)
    for _ in range(2):
        active_requests.take_frames()
    assert counters.sequences_completed == 1
