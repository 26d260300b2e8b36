"""The arithmetic of the supervisor, with time handed in."""

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
def pulse(clock):
    return ChildHealth(SupervisionLimits(step_timeout_s=120, silence_s=30), clock)


def test_pause_doubles_from_a_fifth_of_a_second_to_ten():
    back_off = BackOff(SupervisionLimits())
    pauses = [back_off.after(1.0) for _ in range(8)]
    assert pauses == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10])


def test_pause_starts_over_after_a_minute_of_health():
    back_off = BackOff(SupervisionLimits())
    for _ in range(5):
        back_off.after(59.9)
    assert back_off.after(60.0) == pytest.approx(0.2)
    assert back_off.after(0.0) == pytest.approx(0.4)


def look_for(pulse, clock, seconds):
    """Ask for a complaint each second; return the last answer."""
    complaint = None
    for _ in range(seconds):
        clock.now_s += 1
        complaint = pulse.complaint()
    return complaint


def test_silence_is_a_complaint_also_before_the_first_beat(pulse, clock):
    assert look_for(pulse, clock, 30) is None
    clock.now_s += 0.1
    assert pulse.complaint() == "no sign of life for 30.1 s"


def test_time_in_which_the_whole_machine_stood_still_is_no_silence(pulse, clock):
    look_for(pulse, clock, 20)
    clock.now_s += 3600
    assert pulse.complaint() is None
    assert look_for(pulse, clock, 29) is None
    assert look_for(pulse, clock, 2) == "no sign of life for 31.0 s"


def test_beats_keep_the_complaint_away(pulse, clock):
    for _ in range(100):
        clock.now_s += 20
        pulse.feed(b"0\n")
        assert pulse.complaint() is None


def test_a_step_that_does_not_return_is_a_complaint(pulse):
    pulse.feed(b"120000\n")
    assert pulse.complaint() is None
    pulse.feed(b"120001\n")
    assert pulse.complaint() == "a step has taken 120.0 s (--step-timeout 120)"


def test_loading_has_no_step_but_must_beat(pulse, clock):
    pulse.feed(b"500000\n")
    pulse.feed(b"loading\n")
    assert pulse.complaint() is None
    assert "no sign of life" in look_for(pulse, clock, 31)


def test_beats_may_arrive_in_pieces_and_in_bunches(pulse):
    pulse.feed(b"1\n2\n9000")
    assert pulse.complaint() is None
    pulse.feed(b"00\n")
    assert "900.0 s" in pulse.complaint()
    pulse.feed(b"900000\n0\n")
    assert pulse.complaint() is None


def test_command_after_the_dashes_keeps_its_own_flags():
    options = parse(["--name", "a", "--config", "f", "--", "python", "-m", "x", "--name", "b"])
    assert options.command == ["python", "-m", "x", "--name", "b"]
    assert options.name == "a"
