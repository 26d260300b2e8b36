"""Where a text is split for speech, and which characters count as marks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.audio.speech.splitting import split_clauses, split_phonemes, split_text


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("One sentence.", ["One sentence."]),
        ("", []),
        ("  \n ", []),
        ("Hi. Yes. No.", ["Hi. Yes. No."]),
        (
            "This is a first sentence of some length. And this is another one of some length.",
            [
                "This is a first sentence of some length.",
                "And this is another one of some length.",
            ],
        ),
        (
            "Dr. Smith paid $3.50 to J. R. R. Tolkien at 10:30 a.m. on Main St. and left.",
            ["Dr. Smith paid $3.50 to J. R. R. Tolkien at 10:30 a.m. on Main St. and left."],
        ),
        (
            'He said "this is not at all what I wanted!" She left the room without a word…',
            [
                'He said "this is not at all what I wanted!"',
                "She left the room without a word…",
            ],
        ),
        ("Buy\nmilk\neggs\n\nNote.\nfive degrees", ["Buy, milk, eggs, Note. five degrees"]),
        (
            "這是一個很長的句子，說了很多的話，還有更多的話，一直說到最後，真的停不下來。好。",
            [
                "這是一個很長的句子，說了很多的話，還有更多的話，",
                "一直說到最後，真的停不下來。 好。",
            ],
        ),
    ],
)
def test_a_text_is_split_after_sentences(text, pieces):
    assert split_text(text) == pieces


def test_a_long_sentence_is_split_after_a_clause_or_between_words():
    clause = "and so on and so forth, "
    assert all(piece.endswith(",") for piece in split_text(clause * 30)[:-1])
    words = split_text("word " * 100)
    assert [piece.split() for piece in words] == [["word"] * 40, ["word"] * 40, ["word"] * 20]
    assert [len(piece) for piece in split_text("x" * 450)] == [200, 200, 50]
    # A digit counts as several letters.
    assert {len(piece.split()) for piece in split_text("1234567890 " * 20)} == {2}


@given(st.text(alphabet="aB3 .,;:!?…—\"')\n-", max_size=900))
def test_nothing_is_lost_and_no_piece_is_too_long(text):
    pieces = split_text(text)
    assert all(0 < len(piece) <= 200 for piece in pieces)
    kept = [c for piece in pieces for c in piece if c.isalnum()]
    assert kept == [c for c in text if c.isalnum()]


def test_clauses_are_split_at_marks_but_numbers_are_not():
    found = list(split_clauses('Well, "yes"; it cost 3.50 — no: 1,000... Why?!So. Dr. No、好。'))
    assert [(text.strip().strip('"'), mark) for text, mark in found] == [
        ("Well", ","),
        ("yes", ";"),
        ("it cost 3.50", "—"),
        ("no", ":"),
        ("1,000", "."),
        ("Why", "?"),
        ("So", "."),
        ("Dr. No", ","),
        ("好", "."),
        ("", ""),
    ]


def test_phonemes_are_split_between_words_and_parts_without_sound_are_left_out():
    assert list(split_phonemes(" abc def ghi ", 8)) == ["abc def", "ghi"]
    assert list(split_phonemes("abcdef", 4)) == ["abcd", "ef"]
    assert list(split_phonemes("abc ...", 4)) == ["abc"]
    # After a clause, unless the part would be short.
    assert list(split_phonemes("ab cd ef, gh ij", 12)) == ["ab cd ef,", "gh ij"]
    assert list(split_phonemes("ab, cd ef gh ij", 12)) == ["ab, cd ef", "gh ij"]
    assert not list(split_phonemes(", .", 4))
