"""From token ids to events: characters, control tokens, blocks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.pb import text_pb2 as pb
from tests.unit.text import tiny_tokenizer
from tests.unit.text.reading import cut_at_stop
from tests.unit.text.tiny_tokenizer import to_ids
from workers.text.answer.output import Output, Style
from workers.text.vocabulary import Vocabulary

# Characters of one to four bytes; families, flags and skin tones are several characters joined.
SAMPLE = "Hi, é한국어 서울! 日本👩‍👩‍👧‍👦🏳️‍🌈👍🏽🇰🇷\n"
DATA = SAMPLE.encode()
PIECES = sorted({DATA[i : i + size] for size in (2, 3, 4, 5) for i in range(len(DATA) - size)})
TOKENIZER = tiny_tokenizer.byte_level(PIECES, ["<tool>"])
VOCABULARY = Vocabulary(TOKENIZER, len(TOKENIZER))
PIECE_ID = {piece: 3 + 256 + index for index, piece in enumerate(PIECES)}
BOS, EOS = 1, 2

texts = st.lists(st.sampled_from(SAMPLE), max_size=14).map("".join)


@st.composite
def cuts(draw, data):
    """Return token ids of a byte string, cut anywhere."""
    ids = []
    while data:
        size = draw(st.integers(1, 5))
        piece, data = data[:size], data[size:]
        ids += [PIECE_ID[piece]] if piece in PIECE_ID else to_ids(piece)
    return ids


def run(ids, stop=(), vocabulary=VOCABULARY, *, trims_space=False):
    """Return the events of each id, and those of the end."""
    output = Output(vocabulary, stop, Style(trims_space=trims_space))
    return [*(output.feed(token) for token in ids), output.finish()]


def join(steps):
    events = [event for step in steps for event in step]
    return "".join(event.delta.text for event in events)


@settings(max_examples=200)
@given(texts, st.data())
def test_characters_split_across_tokens_are_shown_whole(text, data):
    steps = run(data.draw(cuts(text.encode())))
    assert join(steps) == text
    for events in steps:
        assert "\ufffd" not in join([events])


@settings(max_examples=100)
@given(texts, st.data())
def test_a_character_is_shown_with_its_last_byte(text, data):
    ids = data.draw(cuts(text.encode()))
    output = Output(VOCABULARY, (), Style())
    shown, fed = "", b""
    for token in ids:
        fed += VOCABULARY.pieces[token]
        shown += join([output.feed(token)])
        assert shown == fed.decode("utf-8", "ignore")


@pytest.mark.parametrize("character", ["é", "한", "👩"])
def test_an_incomplete_character_at_the_end_becomes_one_replacement_character(character):
    data = character.encode()
    for size in range(1, len(data)):
        steps = run(to_ids(b"ok" + data[:size]))
        assert join(steps) == "ok\ufffd"
        assert join(steps[-1:]) == "\ufffd"


@settings(max_examples=150)
@given(st.binary(max_size=24))
def test_invalid_bytes_become_replacement_characters(data):
    assert join(run(to_ids(data))) == data.decode("utf-8", "replace")


@settings(max_examples=150)
@given(
    texts,
    st.lists(st.sampled_from(["국어", "한", "👩‍👩", "\n", "H", "서울!", "👍🏽"]), max_size=3),
    st.data(),
)
def test_a_stop_string_split_across_tokens_ends_the_text(text, strings, data):
    output = Output(VOCABULARY, strings, Style())
    steps = []
    for token in data.draw(cuts(text.encode())):
        steps.append(output.feed(token))
        if output.stop_string is not None:
            break
    steps.append(output.finish())
    assert (join(steps), output.stop_string) == cut_at_stop(text, strings)


def test_an_incomplete_character_after_part_of_a_stop_string_is_not_lost():
    assert join(run(to_ids("a한".encode()[:-1]), ["a한국"])) == "a\ufffd"
    assert join(run(to_ids("a한".encode()), ["a한국"])) == "a한"


def test_control_tokens_are_hidden_even_inside_a_character():
    first, *rest = to_ids("한".encode())
    assert join(run([BOS, first, EOS, *rest, BOS])) == "한"
    assert run([BOS, EOS]) == [[], [], []]


def test_an_added_token_that_is_not_special_shows():
    assert join(run([*to_ids(b"a"), len(TOKENIZER) - 1])) == "a<tool>"


@settings(max_examples=100)
@given(st.lists(st.integers(0, len(TOKENIZER) - 1), max_size=12), st.booleans())
def test_events_are_one_block_of_deltas(ids, asks_infos):
    output = Output(VOCABULARY, ["국"], Style())
    infos = [pb.TokenInfo(id=token, logprob=-1) if asks_infos else None for token in ids]
    events = [e for pair in zip(ids, infos, strict=True) for e in output.feed(*pair)]
    events += output.finish()
    kinds = [event.WhichOneof("event") for event in events]
    if kinds:
        assert kinds[0] == "block_start"
        assert events[0].block_start.kind == pb.BlockStart.KIND_ANSWER
        assert kinds[1:-1] == ["delta"] * (len(kinds) - 2)
        assert kinds[-1] == "block_stop"
    deltas = [event.delta for event in events if event.HasField("delta")]
    assert all(delta.text or delta.infos for delta in deltas)
    # One entry per token, also where no text came out.
    assert [info.id for delta in deltas for info in delta.infos] == (ids if asks_infos else [])


def test_token_infos_carry_the_bytes_of_the_token_and_of_its_alternatives():
    half = to_ids(b"\xed")[0]
    info = pb.TokenInfo(id=half, logprob=-0.5, top=[pb.TokenInfo(id=half), pb.TokenInfo(id=EOS)])
    output = Output(VOCABULARY, (), Style())
    delta = output.feed(half, info)[1].delta
    assert delta.text == ""
    (named,) = delta.infos
    assert named.text == b"\xed"
    assert [entry.text for entry in named.top] == [b"\xed", b"</s>"]
    assert named.logprob == -0.5


@pytest.mark.parametrize(
    ("trims_space", "pieces", "text"),
    [
        (True, ["▁Paris", "▁is"], "Paris is"),
        (False, ["▁Paris", "▁is"], " Paris is"),
        (True, ["▁", "▁Paris"], " Paris"),
        (True, ["is", "▁Paris"], "is Paris"),
    ],
)
def test_only_the_first_space_is_dropped_and_only_if_set(trims_space, pieces, text):
    names = ["▁", "▁Paris", "▁is", "is"]
    tokenizer = tiny_tokenizer.sentence_piece(names, strips=True)
    vocabulary = Vocabulary(tokenizer, len(tokenizer))
    ids = [3 + 256 + names.index(piece) for piece in pieces]
    assert join(run(ids, vocabulary=vocabulary, trims_space=trims_space)) == text
    if trims_space:
        assert tokenizer.decode(ids) == text


# ------------------------------------------------------------------------------ ids


def with_ids(ids, stop=()):
    """Return (text, ids) of every piece."""
    output = Output(VOCABULARY, stop, Style(with_ids=True))
    steps = [*(output.feed(token) for token in ids), output.finish()]
    deltas = [event.delta for step in steps for event in step if event.HasField("delta")]
    return [(delta.text, list(delta.ids)) for delta in deltas]


def test_ids_are_attached_to_the_text_they_decode_to():
    letter, (first, second, third) = to_ids(b"H"), to_ids("한".encode())
    assert with_ids([*letter, first, second, third]) == [
        ("H", letter),
        ("한", [first, second, third]),
    ]


def test_ids_without_text_are_attached_to_the_next_text():
    assert with_ids([BOS, *to_ids(b"H"), BOS]) == [("H", [BOS, *to_ids(b"H")])]


def test_ids_of_a_stop_string_are_never_sent():
    ids = to_ids(b"HiSTO")
    assert with_ids([*ids, *to_ids(b"P")], ["STOP"]) == [("H", ids[:1]), ("i", ids[1:2])]
    assert with_ids(ids, ["STOP"])[2:] == [("STO", ids[2:])]


@settings(max_examples=100)
@given(texts, st.data())
def test_all_ids_come_in_order(text, data):
    ids = data.draw(cuts(text.encode()))
    assert [token for _, some in with_ids(ids) for token in some] == ids
