"""Segments begin and end with their words."""

from __future__ import annotations

from shared.pb import audio_pb2 as pb
from workers.audio.recognition.word_timing import place_words


def times(segment):
    words = [(word.start_s, word.end_s) for word in segment.words]
    return [round(t, 2) for t in (segment.start_s, segment.end_s)], [
        tuple(round(t, 2) for t in word) for word in words
    ]


def timing(word, start, end):
    return {"word": word, "start": start, "end": end}


def test_silence_around_the_words_is_no_part_of_the_segment():
    segment = pb.Transcript.Segment(start_s=0, end_s=12)
    assert place_words(segment, [timing(" So", 4.6, 5), timing(" be", 5, 6)], 0) == 6
    assert times(segment) == ([4.6, 6], [(4.6, 5), (5, 6)])


def test_no_word_begins_before_the_last_ends_nor_ends_before_it_begins():
    segment = pb.Transcript.Segment(start_s=0, end_s=12)
    timings = [timing(" a", 1, 3), timing(" b", 2.5, 2.8), timing(" c", 4, 3.9)]
    assert place_words(segment, timings, 2) == 4
    assert times(segment) == ([2, 4], [(2, 3), (3, 3), (4, 4)])


def test_a_segment_without_words_keeps_its_times():
    segment = pb.Transcript.Segment(start_s=1, end_s=2)
    assert place_words(segment, [], 0.5) == 0.5
    assert times(segment) == ([1, 2], [])
