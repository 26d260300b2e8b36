"""Samples: mono sound as float32 from -1 to 1, their rate, their loudness, and 16-bit PCM. Pure."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float32]

# Recordings are decoded to this rate, which Whisper was trained on. Speech has its model's own.
RATE_HZ: Final = 16_000
PCM_BYTES: Final = 2
# Root mean square of what counts as silent: -60 dB.
SILENCE: Final = 1e-3
_PCM_TOP = 32_767


def to_pcm(samples: Samples) -> bytes:
    """Return samples as little-endian 16-bit PCM; NaN counts as zero."""
    clean = np.clip(np.nan_to_num(samples, nan=0.0, posinf=1.0, neginf=-1.0), -1, 1)
    return np.round(clean * _PCM_TOP).astype("<i2").tobytes()


def from_pcm(data: bytes) -> Samples:
    """Return the samples of little-endian 16-bit PCM."""
    return np.frombuffer(data, "<i2").astype(np.float32) / np.float32(_PCM_TOP + 1)


def is_silent(samples: Samples) -> bool:
    """Return whether the mean level is below the threshold; NaN counts as zero."""
    if not len(samples):
        return True
    return float(np.sqrt(np.square(np.nan_to_num(samples, posinf=1)).mean())) < SILENCE
