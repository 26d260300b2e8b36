"""Splits recordings into windows for Whisper, and a window's tokens into pieces with times.

Owns where a recording may be cut: where it is quietest, since a cut word is lost or doubled. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workers.audio.sound.samples import RATE_HZ, SILENCE, Samples

# In samples. Source: Whisper's input is half a minute.
WINDOW = 30 * RATE_HZ
# The end of a window that is searched for a gap.
_SEARCHED = 12 * RATE_HZ
_FRAME = RATE_HZ // 50
# Length of a gap between two words.
_GAP_FRAMES = 15
# A gap's energy relative to the quietest one, and relative to the mean.
_AS_QUIET = 1.5
_PAUSE = 0.003
# Source: Whisper's timestamp tokens.
_TICK_S = 0.02
# A shorter rest holds no word.
_SHORTEST_REST_S = 0.2


@dataclass(frozen=True)
class TimedTokens:
    """Text tokens between two timestamps; seconds from the window's begin."""

    start_s: float
    end_s: float
    tokens: list[int]


def cut_windows(samples: Samples) -> list[tuple[int, int]]:
    """Return begin and end of each window, in samples."""
    windows, begin = [], 0
    while len(samples) - begin > WINDOW:
        end = begin + WINDOW
        end = _find_gap(samples, end - _SEARCHED, end)
        windows.append((begin, end))
        begin = end
    return [*windows, (begin, len(samples))]


def _find_gap(samples: Samples, begin: int, end: int) -> int:
    """Return the middle of the last gap that is about as quiet as the quietest.

    The last one, since every window costs as much as a full one.
    """
    energy = _energy(samples[begin:end])
    gaps = np.convolve(energy, np.ones(_GAP_FRAMES) / _GAP_FRAMES, "valid")
    limit = max(gaps.min() * _AS_QUIET, energy.mean() * _PAUSE)
    first_frame = int(np.flatnonzero(gaps <= limit)[-1])
    return begin + (first_frame + _GAP_FRAMES // 2) * _FRAME


def _energy(samples: Samples) -> npt.NDArray[np.float32]:
    """Return the mean square of every frame."""
    whole = len(samples) // _FRAME * _FRAME
    energy: npt.NDArray[np.float32] = np.square(samples[:whole]).reshape(-1, _FRAME).mean(axis=1)
    return energy


def has_no_sound(samples: Samples) -> bool:
    """Return whether every frame is silent."""
    if len(samples) < _FRAME:
        return True
    return float(np.sqrt(_energy(samples).max())) < SILENCE


def read_tokens(
    tokens: Sequence[int], first_time: int, duration_s: float, *, is_last: bool = True
) -> tuple[list[TimedTokens], float | None]:
    """Return a window's text by timestamps, and from where the rest must be decoded again.

    Args:
        tokens: as sampled; those from `first_time` on are timestamps.
        duration_s: of the window.
        is_last: whether the recording ends with this window.

    Source: Whisper's transcribe.py. Timestamps enclose every piece of text. A text without an end
    is decoded again from the last timestamp on, unless it is the only one.
    """
    pieces: list[TimedTokens] = []
    start_s, last_s, text = 0.0, 0.0, list[int]()
    is_single = len(tokens) >= 2 and tokens[-1] >= first_time > tokens[-2]
    for token in tokens:
        if token < first_time:
            text.append(token)
            continue
        last_s = (token - first_time) * _TICK_S
        if text:
            pieces.append(TimedTokens(start_s, last_s, text))
            text = []
        start_s = last_s
    if not pieces:
        return ([TimedTokens(start_s, duration_s, text)] if text else []), None
    has_rest = not is_last or duration_s - last_s > _SHORTEST_REST_S
    decodes_rest = not is_single and has_rest and last_s > 0
    if text and not decodes_rest:
        pieces.append(TimedTokens(start_s, duration_s, text))
    return pieces, last_s if decodes_rest else None
