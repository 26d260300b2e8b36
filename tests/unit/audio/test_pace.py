"""How much work a step holds follows the measured pace."""

from __future__ import annotations

import pytest

from workers.audio.pace import StepSize


@pytest.mark.parametrize(
    ("unit_s", "size"), [(0.01, 80), (0.06, 80), (0.1, 40), (0.3, 20), (2.5, 5), (60, 2.5)]
)
def test_a_step_is_short_or_as_small_as_possible(unit_s, size):
    step = StepSize(2.5, 20.0, 80.0)
    for _ in range(20):
        step.note(step.size, step.size * unit_s)
    assert step.size == size


def test_a_device_that_slows_down_gets_smaller_steps_and_larger_ones_when_it_recovers():
    step, sizes = StepSize(1, 2, 8), []
    for unit_s in (1.0, 1.0, *[20.0] * 4, *[0.1] * 20):
        step.note(step.size, step.size * unit_s)
        sizes.append(step.size)
    assert sizes[:2] == [4, 4]
    assert min(sizes) == 1
    assert sizes[-1] == 8


def test_the_size_stays_while_the_pace_varies_a_little():
    step = StepSize(2.5, 20.0, 80.0)
    for index in range(50):
        step.note(1, 0.3 if index % 2 else 0.45)
    assert step.size == 20
