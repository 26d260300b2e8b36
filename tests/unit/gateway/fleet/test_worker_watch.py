"""The state of a worker process, and the reason for its loss, with an injected clock."""

from __future__ import annotations

import pytest

from gateway.fleet.worker_watch import WorkerWatch
from shared.errors import ServiceError
from shared.pb import worker_pb2

LOST = ServiceError("worker_unavailable", "gone")


class Watched:
    """A process that has sent one heartbeat."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.watch = WorkerWatch("unix:/nowhere", lambda: None, lambda: self.now_s)
        self.watch.on_card(worker_pb2.ModelCard(name="m"))
        self.beat(0)

    def beat(self, step_age_s: float, limit_s: float = 120) -> None:
        self.watch.on_heartbeat(
            worker_pb2.Heartbeat(
                step_age_ms=int(step_age_s * 1000), step_timeout_ms=int(limit_s * 1000)
            )
        )


@pytest.mark.parametrize(
    ("step_age_s", "silent_s", "state"),
    [
        (0, 0, "ready"),
        (9, 1, "ready"),
        (11, 0, "busy"),
        (119, 1, "busy"),
        (121, 0, "hung"),
        (0, 11, "hung"),
    ],
)
def test_state_follows_the_age_of_the_step_and_of_the_heartbeat(step_age_s, silent_s, state):
    watched = Watched()
    watched.beat(step_age_s)
    watched.now_s = silent_s
    assert watched.watch.state == state
    watched.beat(0)
    assert watched.watch.state == "ready"


def test_a_process_without_a_supervisor_is_busy_however_long_its_step():
    watched = Watched()
    watched.beat(1000, limit_s=0)
    assert watched.watch.state == "busy"


@pytest.mark.parametrize(
    ("step_age_s", "silent_s", "message"),
    [
        (119.5, 1.0, "took longer than 120 s (--step-timeout)"),
        (0.0, 30.0, "stopped responding"),
        (60.0, 0.5, "gone"),
    ],
)
@pytest.mark.parametrize("is_noticed", [False, True])
def test_a_loss_is_explained_by_the_last_heartbeat(step_age_s, silent_s, message, is_noticed):
    watched = Watched()
    watched.beat(step_age_s)
    watched.now_s = silent_s
    if is_noticed:
        watched.watch.on_lost(LOST)
        watched.watch.on_lost(ServiceError("model_loading", "loading"))
    error = watched.watch.explain_loss(LOST)
    assert message in error.message
    assert (error.code == "worker_hung") == (message != "gone")


def test_a_refusal_needs_no_explanation():
    watched = Watched()
    watched.beat(500)
    refusal = ServiceError("invalid_request", "x")
    assert watched.watch.explain_loss(refusal) is refusal


def test_the_next_process_starts_without_the_hang_of_the_last():
    watched = Watched()
    watched.beat(500)
    watched.watch.on_lost(LOST)
    watched.beat(0)
    assert watched.watch.explain_loss(LOST) is LOST
