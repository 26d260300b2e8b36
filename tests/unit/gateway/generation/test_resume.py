"""Attempts after a loss, and the events the client sees."""

from __future__ import annotations

import pytest

from gateway.fleet.mailbox import Mailbox
from gateway.generation.resume import History
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb

LOST = ServiceError("worker_unavailable", "gone")
HUNG = ServiceError("worker_hung", "a step took longer than 120 s")


def attempt(*, started: bool = False, ids: tuple[int, ...] = ()) -> Mailbox:
    box = Mailbox(1, 1, 10.0, on_end=lambda: None, on_first_token=lambda: None)
    if started:
        sequence = pb.SequenceFrame()
        sequence.events.add(started=pb.Started())
        box.put(sequence, 11.0)
    for index, token in enumerate(ids):
        box.put(pb.SequenceFrame(token_ids=[token]), 13.0 + index)
    box.lose(LOST)
    return box


def accepted(history: History | None = None) -> History:
    history = history or History()
    history.accepted = pb.Accepted(prompt_tokens=7)
    return history


def lose(history: History, error: ServiceError = LOST, **kwargs) -> None:
    history.absorb(attempt(**kwargs), error, 20.0)


def test_ids_of_all_attempts_are_forced_on_the_next():
    history = accepted()
    lose(history, started=True, ids=(1, 2))
    lose(history, started=True, ids=(3,))
    request = pb.GenerateRequest(attempt=2)
    history.prepare(request)
    assert list(request.forced_ids) == [1, 2, 3]
    assert request.attempt == 3
    assert not request.isolate


def test_a_refusal_is_not_a_loss():
    error = ServiceError("invalid_request", "x")
    with pytest.raises(ServiceError) as caught:
        accepted().absorb(attempt(), error, 0.0)
    assert caught.value is error


def test_submits_that_are_never_accepted_end_with_an_error():
    history = History()
    for _ in range(6):
        lose(history)
    with pytest.raises(ServiceError) as caught:
        lose(history)
    assert caught.value is LOST


def test_a_lost_watch_does_not_count_as_a_failed_submit():
    history = History()
    history.absorb(attempt(), ServiceError("watch_missing", "x"), 0.0)
    assert not history.resumed


def test_two_losses_without_progress_isolate_a_request():
    history = accepted()
    lose(history, started=True)
    assert not history.isolate
    lose(history, started=True)
    assert history.isolate


def test_progress_clears_the_charge():
    history = accepted()
    lose(history, started=True)
    lose(history, started=True, ids=(1,))
    lose(history, started=True)
    assert not history.isolate
    lose(history, started=True)
    assert history.isolate
    lose(history, started=True, ids=(2,))
    assert not history.isolate


def test_a_request_outside_the_batch_is_never_charged():
    history = accepted()
    for _ in range(10):
        lose(history)
    assert not history.isolate


def test_an_isolated_request_fails_with_its_next_loss():
    history = accepted()
    lose(history, started=True)
    lose(history, started=True)
    lose(history)
    with pytest.raises(ServiceError) as caught:
        lose(history, started=True)
    assert caught.value.code == "engine_failed"


def test_a_request_whose_step_hangs_is_repeated_once_and_alone():
    history = accepted()
    lose(history, HUNG, started=True)
    assert history.isolate
    with pytest.raises(ServiceError) as caught:
        lose(history, HUNG, started=True)
    assert caught.value is HUNG


def test_neighbours_of_a_step_that_hangs_are_resumed():
    decoding, waiting = accepted(), accepted()
    for _ in range(3):
        lose(decoding, HUNG, started=True, ids=(1,))
        lose(waiting, HUNG)
    assert not decoding.isolate
    assert not waiting.isolate


def test_the_number_of_resumes_is_limited():
    history = accepted()
    for _ in range(16):
        lose(history, started=True, ids=(1,))
    with pytest.raises(ServiceError) as caught:
        lose(history, started=True, ids=(1,))
    assert caught.value.code == "engine_failed"


def events(*kinds: str) -> list[pb.Event]:
    return [pb.Event(**{kind: {}}) for kind in kinds]


def kinds(items) -> list[str]:
    return [item.WhichOneof("event") for item in items]


def test_the_first_attempt_passes_unchanged():
    history = accepted()
    batch = events("started", "prompt_progress", "block_start", "delta")
    assert history.amend(batch) is batch


def test_events_of_every_attempt_reach_the_client_once():
    history = accepted()
    history.amend(events("started"))
    lose(history, started=True, ids=(1,))
    again = events("started", "prompt_progress", "delta")
    assert kinds(history.amend(again)) == ["delta"]


def test_the_first_started_event_of_any_attempt_is_sent():
    history = accepted()
    lose(history)
    assert kinds(history.amend(events("started"))) == ["started"]
    assert history.amend(events("started")) == []


def test_usage_is_of_one_attempt_and_durations_are_summed():
    history = accepted()
    history.amend([pb.Event(started=pb.Started(cached_tokens=5))])
    lose(history, started=True, ids=(1, 2))
    finished = pb.Finished(
        usage={"prompt_tokens": 9, "completion_tokens": 4, "cached_tokens": 8},
        timings={"queue_ms": 1, "prompt_ms": 10, "predicted_ms": 100},
    )
    history.amend([pb.Event(started=pb.Started(cached_tokens=8))])
    [event] = history.amend([pb.Event(finished=finished)])
    assert event.finished.usage.prompt_tokens == 7
    assert event.finished.usage.cached_tokens == 5
    assert event.finished.usage.completion_tokens == 4
    timings = event.finished.timings
    assert (timings.queue_ms, timings.prompt_ms, timings.predicted_ms) == (1001, 2010, 1100)
