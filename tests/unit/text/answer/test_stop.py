"""Stop strings in pieces, compared with a search in the whole text."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.text.reading import cut_at_stop
from workers.text.answer.stop import StopMatcher


def feed_all(pieces, strings):
    """Return the shown pieces and which string ended the text; checks that nothing follows it."""
    matcher = StopMatcher(strings)
    shown = []
    for piece in pieces:
        ended = matcher.matched is not None
        shown.append(matcher.feed(piece))
        assert not (ended and shown[-1])
    shown.append(matcher.flush())
    assert matcher.feed("more") + matcher.flush() == ("" if matcher.matched else "more")
    return shown, matcher.matched


def cut(text, offsets):
    edges = [0, *sorted(offsets), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(edges)]


letters = st.text(alphabet="ab\n", min_size=1, max_size=5)
words = st.sampled_from(["한국", "국어", "\n\n", "\n", "Alice:", "ice", "</s>", "😀", "aaa", "aa"])
stop_lists = st.lists(st.one_of(letters, words), max_size=4)
texts = st.one_of(
    st.text(alphabet="ab\n", max_size=14),
    st.lists(st.one_of(words, letters), max_size=5).map("".join),
)


@settings(max_examples=250)
@given(texts, stop_lists, st.data())
def test_any_cut_shows_what_the_whole_text_shows(text, strings, data):
    expected = cut_at_stop(text, strings)
    offsets = st.lists(st.integers(0, len(text)), max_size=len(text))
    cuts = [[], range(1, len(text)), data.draw(offsets), *([offset] for offset in range(len(text)))]
    for chosen in cuts:
        shown, matched = feed_all(cut(text, chosen), strings)
        assert ("".join(shown), matched) == expected


@settings(max_examples=250)
@given(texts, stop_lists)
def test_no_more_is_held_back_than_could_become_a_stop_string(text, strings):
    matcher = StopMatcher(strings)
    shown = "".join(matcher.feed(letter) for letter in text)
    if matcher.matched is None:
        held = text[len(shown) :]
        assert not held or any(s.startswith(held) and s != held for s in strings)


@pytest.mark.parametrize(
    ("strings", "pieces", "shown", "matched"),
    [
        # Nothing of a stop string is shown before it is known not to be one.
        (["STOP"], ["aS", "T", "Ox"], ["a", "", "STOx", ""], None),
        (["STOP"], ["aST", "OP", "tail"], ["a", "", "", ""], "STOP"),
        (["STOP"], ["aST"], ["a", "ST"], None),
        # The match that begins first wins, even if another ends first.
        (["bc", "abcd"], ["abc", "d"], ["", "", ""], "abcd"),
        (["bc", "abcd"], ["abc", "x"], ["", "a", ""], "bc"),
        (["bc", "abcd"], ["abc"], ["", "a"], "bc"),
        # Of two that begin together the shorter ends first.
        (["ab", "abc"], ["abc"], ["", ""], "ab"),
        (["abc", "ab"], ["a", "b", "c"], ["", "", "", ""], "ab"),
        (["\n", "Alice:"], ["Hi", "\nAlice:"], ["Hi", "", ""], "\n"),
        (["aab"], ["aa", "ab"], ["", "a", ""], "aab"),
        ([], ["a", "b"], ["a", "b", ""], None),
    ],
)
def test_stop_strings_over_pieces(strings, pieces, shown, matched):
    assert feed_all(pieces, strings) == (shown, matched)
