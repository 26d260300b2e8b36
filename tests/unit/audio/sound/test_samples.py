"""Conversion of samples to and from 16-bit PCM, and silence."""

from __future__ import annotations

import numpy as np

from workers.audio.sound.samples import from_pcm, is_silent, to_pcm


def test_nan_counts_as_zero_and_samples_out_of_range_are_clipped():
    samples = np.array([np.nan, np.inf, -np.inf, 2, -2, 0.5], np.float32)
    assert np.frombuffer(to_pcm(samples), "<i2").tolist() == [
        0,
        32767,
        -32767,
        32767,
        -32767,
        16384,
    ]


def test_pcm_is_read_as_float32_from_minus_one_to_one():
    samples = from_pcm(np.array([-32768, 0, 16384], "<i2").tobytes())
    assert samples.dtype == np.float32
    assert samples.tolist() == [-1, 0, 0.5]


def test_silence_is_below_minus_sixty_decibels():
    assert is_silent(np.zeros(0, np.float32))
    assert is_silent(np.full(100, 0.0009, np.float32))
    assert is_silent(np.array([np.nan] * 100, np.float32))
    assert not is_silent(np.full(100, 0.0011, np.float32))
