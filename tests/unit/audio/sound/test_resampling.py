"""Resampled sound keeps what both rates can hold, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from workers.audio.sound.resampling import resample

TO_HZ = 16_000


def tone(pitch_hz, rate_hz, seconds=0.5):
    return np.sin(2 * np.pi * pitch_hz * np.arange(int(rate_hz * seconds)) / rate_hz).astype("f4")


@pytest.mark.parametrize("rate_hz", [8000, 11_025, 12_000, 22_050, 24_000, 44_100, 48_000, 192_000])
def test_a_tone_keeps_its_pitch_level_and_phase(rate_hz):
    samples = resample(tone(1000, rate_hz), rate_hz, TO_HZ)
    expected = tone(1000, TO_HZ)
    assert abs(len(samples) - len(expected)) <= 1
    inner = slice(400, len(expected) - 400)
    assert np.abs(samples[: len(expected)][inner] - expected[inner]).max() < 1e-3


@pytest.mark.parametrize("rate_hz", [24_000, 44_100, 48_000])
def test_a_tone_above_the_new_rates_band_is_removed(rate_hz):
    samples = resample(tone(10_000, rate_hz), rate_hz, TO_HZ)
    assert np.abs(samples[400:-400]).max() < 1e-3


@pytest.mark.parametrize(
    ("rate_hz", "count"),
    [(7, 0), (7, 1), (400, 1), (15_999, 2), (16_001, 300), (191_999, 1), (191_999, 300)],
)
def test_any_rate_and_length_is_converted(rate_hz, count):
    samples = resample(np.full(count, 0.5, np.float32), rate_hz, TO_HZ)
    assert len(samples) == -(-count * TO_HZ // rate_hz)
    assert np.isfinite(samples).all()


def test_the_same_rate_changes_nothing():
    samples = tone(1000, TO_HZ)
    assert resample(samples, TO_HZ, TO_HZ) is samples
