"""A long recording is cut where nothing is said, and nothing that is said gets lost."""

from __future__ import annotations

import numpy as np
import pytest

from workers.audio.recognition import window
from workers.audio.recognition.window import RATE_HZ, Piece

# Where a made-up vocabulary's tokens of time begin.
TIME = 1000


def at(seconds):
    return TIME + round(seconds / 0.02)


def noise(duration_s, level=0.1):
    return np.random.default_rng(0).normal(0, level, round(duration_s * RATE_HZ)).astype("f4")


def hush(samples, begin_s, end_s):
    samples[round(begin_s * RATE_HZ) : round(end_s * RATE_HZ)] *= 0.001


def test_half_a_minute_is_one_window():
    assert window.cut(noise(30)) == [(0, 30 * RATE_HZ)]


def test_windows_end_in_pauses():
    samples = noise(75)
    for pause_s in (10, 25, 50):
        hush(samples, pause_s, pause_s + 0.5)
    (first, end), (begin, second), (_, last) = window.cut(samples)
    assert first == 0
    assert 25 < end / RATE_HZ < 25.5
    assert begin == end
    assert 50 < second / RATE_HZ < 50.5
    assert last == len(samples)


@pytest.mark.parametrize("duration_s", [0.01, 29.99, 30.01, 61.7, 200])
def test_windows_cover_everything_once(duration_s):
    cuts = window.cut(noise(duration_s))
    assert cuts[0][0] == 0
    assert [end for _, end in cuts[:-1]] == [begin for begin, _ in cuts[1:]]
    assert cuts[-1][1] == round(duration_s * RATE_HZ)
    assert all(0 < end - begin <= 30 * RATE_HZ for begin, end in cuts)


def test_silence_is_told_from_a_whisper():
    assert window.is_silent(np.zeros(RATE_HZ, "f4"))
    assert window.is_silent(noise(1, 0.0001))
    assert window.is_silent(noise(0.001))
    assert not window.is_silent(noise(1, 0.005))
    assert not window.is_silent(np.concatenate([np.zeros(RATE_HZ, "f4"), noise(0.1)]))


def test_pieces_lie_between_times():
    tokens = [at(0), 1, 2, at(2), at(2.5), 3, at(5)]
    assert window.read(tokens, TIME, 5) == ([Piece(0, 2, [1, 2]), Piece(2.5, 5, [3])], None)


def test_a_piece_without_an_end_is_heard_again():
    pieces, rest_s = window.read([at(0), 1, at(2), at(2), 2, 3], TIME, 10)
    assert pieces == [Piece(0, 2, [1])]
    assert rest_s == 2


def test_what_comes_after_a_pair_of_times_is_heard_again():
    pieces, rest_s = window.read([at(0), 1, at(2), at(2)], TIME, 10)
    assert pieces == [Piece(0, 2, [1])]
    assert rest_s == 2


def test_the_end_of_a_window_is_not_heard_again():
    tokens = [at(0), 1, at(9.9), at(9.9)]
    assert window.read(tokens, TIME, 10)[1] is None
    pieces, rest_s = window.read([at(0), 1, at(9.9), at(9.9), 2], TIME, 10)
    assert [piece.tokens for piece in pieces] == [[1], [2]]
    assert rest_s is None


def test_a_text_without_any_time_takes_the_whole_window():
    assert window.read([1, 2], TIME, 7) == ([Piece(0, 7, [1, 2])], None)
    assert window.read([at(1), 1, 2], TIME, 7) == ([Piece(1, 7, [1, 2])], None)
    assert window.read([], TIME, 7) == ([], None)
    assert window.read([at(0), at(0)], TIME, 7) == ([], None)
