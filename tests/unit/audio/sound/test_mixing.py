"""Channels are mixed to one without cancelling each other."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

from workers.audio.sound import recording
from workers.audio.sound.mixing import mix
from workers.audio.sound.samples import RATE_HZ

SOURCE = np.random.default_rng(0)
VOICE, OTHER = SOURCE.normal(0, 0.1, (2, 2 * RATE_HZ)).astype(np.float32)
SILENT = np.zeros_like(VOICE)


def level(samples):
    return float(np.sqrt(np.square(samples).mean()))


def likeness(samples, voice=VOICE):
    """Return the correlation, whatever the polarity."""
    return abs(float(np.corrcoef(samples, voice)[0, 1]))


def encode(pair, coding):
    command = ["ffmpeg", "-v", "error", "-f", "f32le", "-ar", str(RATE_HZ), "-ac", "2"]
    command += ["-i", "pipe:0", "-f", *coding, "pipe:1"]
    return subprocess.run(command, input=pair.tobytes(), capture_output=True, check=True).stdout


@pytest.mark.parametrize(
    ("channels", "expected"),
    [
        ([VOICE], VOICE),
        ([VOICE, VOICE], VOICE),
        ([VOICE, OTHER], (VOICE + OTHER) / 2),
        ([VOICE, SILENT], VOICE / 2),
        ([SILENT, SILENT], SILENT),
        ([VOICE, -VOICE], VOICE),
        ([VOICE, -VOICE, VOICE], VOICE),
        ([VOICE, -0.5 * VOICE], 0.75 * VOICE),
        ([np.r_[VOICE, OTHER], np.r_[VOICE, -OTHER]], np.r_[VOICE, OTHER]),
    ],
)
def test_a_reversed_channel_is_turned_over_and_others_are_averaged(channels, expected):
    assert np.allclose(mix(np.stack(channels, axis=1), RATE_HZ), expected, atol=1e-6)


def test_a_reversed_channel_with_noise_of_its_own_does_not_cancel():
    mixed = mix(np.stack([VOICE + 0.3 * OTHER, 0.3 * OTHER - VOICE], axis=1), RATE_HZ)
    assert likeness(mixed) > 0.9


@pytest.mark.parametrize("coding", [("wav",), ("wav", "-c:a", "adpcm_ima_wav"), ("flac",)])
async def test_a_recording_in_antiphase_is_as_loud_as_one_in_phase(coding):
    made = encode(np.stack([VOICE, -VOICE], axis=1), coding)
    samples = (await recording.decode(made, 600))[: len(VOICE)]
    assert level(samples) > 0.9 * level(VOICE[: len(samples)])
    assert likeness(samples, VOICE[: len(samples)]) > 0.9


def test_no_frames_give_no_samples():
    assert not len(mix(np.zeros((0, 2), np.float32), RATE_HZ))
