"""Text that arrives in pieces, read as if it were whole."""

from __future__ import annotations

import sys
import tracemalloc
from statistics import median

import pytest

from workers.text.toolcalls.detection import FORMATS
from workers.text.toolcalls.reader.source import partial_length

JSON_LIKE = '{"name": "f", "arguments": {"text": "'
SIZE = 40_000


@pytest.mark.parametrize(
    ("text", "delimiters", "length"),
    [
        ("abc", ["<tool>"], 0),
        ("abc<", ["<tool>"], 1),
        ("abc<tool", ["<tool>"], 5),
        ("abc<tool>", ["<tool>"], 0),
        ("<<<", ["<tool>"], 1),
        ("<to<", ["<tool>", "</tool>"], 1),
        ("x\n</", ["\n</p>", "</p>"], 3),
        ("aab", ["aabb", "ab"], 3),
        ("", ["<tool>"], 0),
    ],
)
def test_the_longest_beginning_of_a_delimiter_is_held(text, delimiters, length):
    assert partial_length(text, delimiters) == length


def measure(parser, char):
    """Return the bytes that one more character makes a parser allocate, and the calls."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    sys.setprofile(note)
    try:
        parser.feed(char)
    finally:
        sys.setprofile(None)
    return tracemalloc.get_traced_memory()[1] - before, count


def list_long_answers():
    """Return answers that make a parser hold text back: marks that begin, blocks without end."""
    answers = []
    for form in FORMATS:
        openings = (*form.markers, JSON_LIKE, JSON_LIKE.replace("name", "id"))
        answers += [(form, opening, "x") for opening in openings]
        answers += [(form, "", marker[:-1]) for marker in form.markers[:1]]
    return [
        pytest.param(*answer, id=f"{answer[0].name} {answer[1] or 'partial'}") for answer in answers
    ]


@pytest.mark.parametrize(("form", "opening", "filling"), list_long_answers())
def test_a_character_costs_no_more_after_a_long_text(form, opening, filling):
    parser = form.parser({"f": {}})
    parser.feed(opening)
    for _ in range(200):
        parser.feed(filling * (SIZE // 200 // len(filling)))
    tracemalloc.start()
    try:
        costs = [measure(parser, char) for char in filling * 3]
    finally:
        tracemalloc.stop()
    # The median: a list grows by more at times.
    assert median(size for size, _ in costs) < SIZE // 10
    assert max(calls for _, calls in costs) < SIZE // 100
