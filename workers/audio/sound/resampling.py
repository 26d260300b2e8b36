"""Converts samples from one rate to another, by a polyphase filter. Pure.

Source: Smith, Digital Audio Resampling (ccrma.stanford.edu/~jos/resample), windowed sinc.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from workers.audio.sound.samples import Samples

# Zero crossings of the sinc on each side, and the part of the band that is kept.
_CROSSINGS: Final = 16
_PASSED: Final = 0.95
_KAISER_BETA: Final = 8.0


def resample(samples: Samples, from_hz: int, to_hz: int) -> Samples:
    """Return samples at another rate, filtered so that nothing aliases.

    Output sample n is at the input's index n * down / up. All samples whose n is the same modulo
    `up` share one filter.
    """
    if from_hz == to_hz or not len(samples):
        return samples
    common = math.gcd(from_hz, to_hz)
    up, down = to_hz // common, from_hz // common
    cutoff = _PASSED * min(1.0, to_hz / from_hz)
    reach = math.ceil(_CROSSINGS / cutoff)
    padded = np.pad(samples, (reach - 1, reach + down))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach)
    output = np.empty(math.ceil(len(samples) * up / down), np.float32)
    for phase in range(min(up, len(output))):
        begin, rest = divmod(phase * down, up)
        target = output[phase::up]
        taps = _make_filter(rest / up, reach, cutoff)
        np.matmul(windows[begin::down][: len(target)], taps, out=target)
    return output


def _make_filter(shift: float, reach: int, cutoff: float) -> npt.NDArray[np.float32]:
    """Return the weights of `2 * reach` input samples for a point between the middle two.

    Args:
        shift: distance of the point from the sample before it, in samples.
        cutoff: relative to half of the input's rate.
    """
    distance = np.arange(1 - reach, reach + 1) - shift
    inside = np.clip(1 - (distance / reach) ** 2, 0, None)
    taps = np.sinc(cutoff * distance) * np.i0(_KAISER_BETA * np.sqrt(inside))
    weights: npt.NDArray[np.float32] = (taps / taps.sum()).astype(np.float32)
    return weights
