"""Long recordings in windows that Whisper takes, and what it says of one as segments.

Owns where a recording may be cut: at the quietest place, since a word that is cut is lost or
doubled. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float32]

RATE_HZ = 16_000
WINDOW_S = 30
_WINDOW = WINDOW_S * RATE_HZ
# The part of a window in which its end may lie.
_SEARCHED = 12 * RATE_HZ
_FRAME = RATE_HZ // 50
# The gap between two words that is looked for.
_GAP_FRAMES = 15
# How much louder than the quietest a gap may be; what part of the mean is a pause anyway.
_AS_QUIET = 1.5
_PAUSE = 0.003
# Root mean square below which nobody hears anything: -60 dB.
_SILENCE = 1e-3
# Source: Whisper's tokens of time are two hundredths of a second apart.
_TICK_S = 0.02
# A rest shorter than this holds no word.
_SHORTEST_REST_S = 0.2


@dataclass(frozen=True)
class Piece:
    """A piece of a window's text; seconds from where the window begins."""

    start_s: float
    end_s: float
    tokens: list[int]


def cut(samples: Samples) -> list[tuple[int, int]]:
    """Return where windows begin and end, in samples; each is at most half a minute."""
    windows, begin = [], 0
    while len(samples) - begin > _WINDOW:
        end = begin + _WINDOW
        end = _quietest(samples, end - _SEARCHED, end)
        windows.append((begin, end))
        begin = end
    return [*windows, (begin, len(samples))]


def _quietest(samples: Samples, begin: int, end: int) -> int:
    """Return the middle of the last gap between two places that is as good as the quietest.

    Late, since every window costs as much as a full one.
    """
    energy = _energy(samples[begin:end])
    gaps = np.convolve(energy, np.ones(_GAP_FRAMES) / _GAP_FRAMES, "valid")
    limit = max(gaps.min() * _AS_QUIET, energy.mean() * _PAUSE)
    place = int(np.flatnonzero(gaps <= limit)[-1])
    return begin + (place + _GAP_FRAMES // 2) * _FRAME


def _energy(samples: Samples) -> npt.NDArray[np.float32]:
    """Return the mean square of every fiftieth of a second."""
    whole = len(samples) // _FRAME * _FRAME
    energy: npt.NDArray[np.float32] = np.square(samples[:whole]).reshape(-1, _FRAME).mean(axis=1)
    return energy


def is_silent(samples: Samples) -> bool:
    """Return whether nothing is to be heard."""
    if len(samples) < _FRAME:
        return True
    return float(np.sqrt(_energy(samples).max())) < _SILENCE


def read(
    tokens: Sequence[int], first_time: int, duration_s: float, *, is_last: bool = True
) -> tuple[list[Piece], float | None]:
    """Return the pieces of a window's text, and from where the rest must be heard again.

    Args:
        tokens: as sampled; those from `first_time` on are times.
        duration_s: of the window.
        is_last: whether nothing comes after it that it might have been cut from.

    Source: Whisper's transcribe.py. A time stands before and after every piece. A text without an
    end is heard again from the last time on, unless it is the only one.
    """
    pieces: list[Piece] = []
    start_s, last_s, text = 0.0, 0.0, list[int]()
    is_alone = len(tokens) >= 2 and tokens[-1] >= first_time > tokens[-2]
    for token in tokens:
        if token < first_time:
            text.append(token)
            continue
        last_s = (token - first_time) * _TICK_S
        if text:
            pieces.append(Piece(start_s, last_s, text))
            text = []
        start_s = last_s
    if not pieces:
        return ([Piece(start_s, duration_s, text)] if text else []), None
    is_worth_it = not is_last or duration_s - last_s > _SHORTEST_REST_S
    must_go_on = not is_alone and is_worth_it and last_s > 0
    if text and not must_go_on:
        pieces.append(Piece(start_s, duration_s, text))
    return pieces, last_s if must_go_on else None
