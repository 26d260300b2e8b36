"""Mixes the channels of a recording to one, and keeps what a plain mean would cancel.

A channel with reversed polarity, as a miswired microphone gives, is the negative of the other, and
their mean is silence. Pure.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from workers.audio.sound.samples import Samples

# Of the parts that are compared; a recording may be joined from differently wired ones.
_PART_S: Final = 0.5
# Correlation with the loudest channel from which a channel counts as reversed.
_REVERSED: Final = -0.5


def mix(values: npt.NDArray[np.float32], rate_hz: int) -> Samples:
    """Return the mean of all channels, after reversed ones are turned over.

    Shape: [frames, channels] gives [frames].
    """
    if values.shape[1] == 1 or not len(values):
        return values.reshape(-1)
    begins = np.arange(0, len(values), max(1, round(_PART_S * rate_hz)))
    energy = _sum_parts(np.square(values), begins)
    loudest = values[:, energy.sum(axis=0).argmax()]
    products = _sum_parts(values * loudest[:, None], begins)
    scale = np.sqrt(energy * energy.max(axis=1, keepdims=True))
    signs = np.where(products < _REVERSED * scale, np.float32(-1), np.float32(1))
    lengths = np.diff(begins, append=len(values))
    mixed: Samples = np.einsum("fc,fc->f", values, np.repeat(signs, lengths, axis=0))
    return mixed / np.float32(values.shape[1])


def _sum_parts(
    values: npt.NDArray[np.float32], begins: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    total: npt.NDArray[np.float64] = np.add.reduceat(values, begins, axis=0, dtype=np.float64)
    return total
