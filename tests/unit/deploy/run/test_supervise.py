"""The arithmetic of the supervisor, with injected time."""

from __future__ import annotations

import pytest

from deploy.run.health import BackOff, ChildHealth, SupervisionLimits
from deploy.run.supervise import parse


class Clock:
    now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def child_health(clock):
    return ChildHealth(SupervisionLimits(step_timeout_s=120, silence_s=30), clock)


def test_pause_doubles_from_a_fifth_of_a_second_to_ten():
    back_off = BackOff(SupervisionLimits())
    pauses = [back_off.after(1.0) for _ in range(8)]
    assert pauses == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10])


def test_pause_is_reset_after_a_minute_of_health():
    back_off = BackOff(SupervisionLimits())
    for _ in range(5):
        back_off.after(59.9)
    assert back_off.after(60.0) == pytest.approx(0.2)
    assert back_off.after(0.0) == pytest.approx(0.4)


def poll(child_health, clock, seconds):
    """Poll each second; return the last result."""
    failure = None
    for _ in range(seconds):
        clock.now_s += 1
        failure = child_health.find_failure()
    return failure


def test_silence_is_a_failure_even_before_the_first_heartbeat(child_health, clock):
    assert poll(child_health, clock, 30) is None
    clock.now_s += 0.1
    assert child_health.find_failure() == "no heartbeat for 30.1 s"


def test_suspension_of_the_machine_is_not_silence(child_health, clock):
    poll(child_health, clock, 20)
    clock.now_s += 3600
    assert child_health.find_failure() is None
    assert poll(child_health, clock, 29) is None
    assert poll(child_health, clock, 2) == "no heartbeat for 31.0 s"


def test_heartbeats_prevent_a_failure(child_health, clock):
    for _ in range(100):
        clock.now_s += 20
        child_health.feed(b"0\n")
        assert child_health.find_failure() is None


def test_a_step_that_does_not_return_is_a_failure(child_health):
    child_health.feed(b"120000\n")
    assert child_health.find_failure() is None
    child_health.feed(b"120001\n")
    assert child_health.find_failure() == "a step has run for 120.0 s (--step-timeout 120)"


def test_suspension_of_the_machine_is_no_part_of_a_step(child_health, clock):
    child_health.feed(b"50000\n")
    assert poll(child_health, clock, 1) is None
    clock.now_s += 3600
    assert child_health.find_failure() is None
    child_health.feed(b"3700000\n")
    assert child_health.find_failure() is None
    child_health.feed(b"3722000\n")
    assert child_health.find_failure() == "a step has run for 122.0 s (--step-timeout 120)"
    child_health.feed(b"0\n")
    child_health.feed(b"121000\n")
    assert child_health.find_failure() == "a step has run for 121.0 s (--step-timeout 120)"


def test_loading_has_no_step_limit_but_needs_heartbeats(child_health, clock):
    child_health.feed(b"500000\n")
    child_health.feed(b"loading\n")
    assert child_health.find_failure() is None
    assert "no heartbeat" in poll(child_health, clock, 31)


def test_heartbeats_may_arrive_split_or_together(child_health):
    child_health.feed(b"1\n2\n9000")
    assert child_health.find_failure() is None
    child_health.feed(b"00\n")
    assert "900.0 s" in child_health.find_failure()
    child_health.feed(b"900000\n0\n")
    assert child_health.find_failure() is None


def test_command_after_the_dashes_keeps_its_own_flags():
    options = parse(["--name", "a", "--config", "f", "--", "python", "-m", "x", "--name", "b"])
    assert options.command == ["python", "-m", "x", "--name", "b"]
    assert options.name == "a"
