"""Temperature fallback: whether a window's result is kept, or decoded again more randomly. Pure.

Source: Whisper's transcribe.py, for the method, the temperatures and the thresholds.
"""

from __future__ import annotations

from typing import Final

from mlx_audio.stt.models.whisper.decoding import DecodingResult

TEMPERATURES: Final = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
# Text decoded at a higher temperature is no context for the next window.
HIGHEST_CONTEXT_TEMPERATURE: Final = 0.5
LOWEST_LOGPROB: Final = -1.0
# Text that compresses better than this repeats itself.
_HIGHEST_COMPRESSION = 2.4
_NO_SPEECH = 0.6
# A hum is decoded as one unlikely word, with a high probability of no speech.
_SURELY_NO_SPEECH, _DOUBTED_LOGPROB = 0.85, -0.6


def is_good(result: DecodingResult) -> bool:
    return bool(
        result.avg_logprob >= LOWEST_LOGPROB and result.compression_ratio <= _HIGHEST_COMPRESSION
    )


def choose(best: DecodingResult | None, result: DecodingResult) -> DecodingResult:
    """Return the better of two bad results: repetition counts as worse than a low probability."""
    if best is None:
        return result
    return max(
        best, result, key=lambda r: (r.compression_ratio <= _HIGHEST_COMPRESSION, r.avg_logprob)
    )


def has_no_speech(result: DecodingResult) -> bool:
    """Return whether a window holds no speech, whatever its text."""
    if result.no_speech_prob > _SURELY_NO_SPEECH:
        return bool(result.avg_logprob < _DOUBTED_LOGPROB)
    return bool(result.no_speech_prob > _NO_SPEECH and result.avg_logprob < LOWEST_LOGPROB)
