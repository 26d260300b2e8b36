"""A long recording is cut where it is quiet, and no text is lost."""

from __future__ import annotations

import numpy as np
import pytest

from workers.audio.recognition.window import (
    TimedTokens,
    cut_windows,
    has_no_sound,
    read_tokens,
)
from workers.audio.sound.samples import RATE_HZ

# The first timestamp token of a made-up vocabulary.
TIME = 1000


def at(seconds):
    return TIME + round(seconds / 0.02)


def noise(duration_s, level=0.1):
    return np.random.default_rng(0).normal(0, level, round(duration_s * RATE_HZ)).astype("f4")


def hush(samples, begin_s, end_s):
    samples[round(begin_s * RATE_HZ) : round(end_s * RATE_HZ)] *= 0.001


def test_half_a_minute_is_one_window():
    assert cut_windows(noise(30)) == [(0, 30 * RATE_HZ)]


def test_windows_end_in_pauses():
    samples = noise(75)
    for pause_s in (10, 25, 50):
        hush(samples, pause_s, pause_s + 0.5)
    (first, end), (begin, second), (_, last) = cut_windows(samples)
    assert first == 0
    assert 25 < end / RATE_HZ < 25.5
    assert begin == end
    assert 50 < second / RATE_HZ < 50.5
    assert last == len(samples)


@pytest.mark.parametrize("duration_s", [0.01, 29.99, 30.01, 61.7, 200])
def test_windows_cover_everything_once(duration_s):
    cuts = cut_windows(noise(duration_s))
    assert cuts[0][0] == 0
    assert [end for _, end in cuts[:-1]] == [begin for begin, _ in cuts[1:]]
    assert cuts[-1][1] == round(duration_s * RATE_HZ)
    assert all(0 < end - begin <= 30 * RATE_HZ for begin, end in cuts)


def test_silence_is_told_from_low_sound():
    assert has_no_sound(np.zeros(RATE_HZ, "f4"))
    assert has_no_sound(noise(1, 0.0001))
    assert has_no_sound(noise(0.001))
    assert not has_no_sound(noise(1, 0.005))
    assert not has_no_sound(np.concatenate([np.zeros(RATE_HZ, "f4"), noise(0.1)]))


def test_pieces_are_enclosed_by_timestamps():
    tokens = [at(0), 1, 2, at(2), at(2.5), 3, at(5)]
    assert read_tokens(tokens, TIME, 5) == (
        [TimedTokens(0, 2, [1, 2]), TimedTokens(2.5, 5, [3])],
        None,
    )


def test_a_piece_without_an_end_is_decoded_again():
    pieces, rest_s = read_tokens([at(0), 1, at(2), at(2), 2, 3], TIME, 10)
    assert pieces == [TimedTokens(0, 2, [1])]
    assert rest_s == 2


def test_the_rest_after_a_pair_of_timestamps_is_decoded_again():
    pieces, rest_s = read_tokens([at(0), 1, at(2), at(2)], TIME, 10)
    assert pieces == [TimedTokens(0, 2, [1])]
    assert rest_s == 2


def test_the_end_of_a_recording_is_not_decoded_again():
    tokens = [at(0), 1, at(9.9), at(9.9)]
    assert read_tokens(tokens, TIME, 10)[1] is None
    pieces, rest_s = read_tokens([at(0), 1, at(9.9), at(9.9), 2], TIME, 10)
    assert [piece.tokens for piece in pieces] == [[1], [2]]
    assert rest_s is None


def test_a_text_without_timestamps_spans_the_window():
    assert read_tokens([1, 2], TIME, 7) == ([TimedTokens(0, 7, [1, 2])], None)
    assert read_tokens([at(1), 1, 2], TIME, 7) == ([TimedTokens(1, 7, [1, 2])], None)
    assert read_tokens([], TIME, 7) == ([], None)
    assert read_tokens([at(0), at(0)], TIME, 7) == ([], None)
