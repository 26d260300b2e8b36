"""The bytes of tokens against the tokenizers' own decoders."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from tests.checkpoint import starter_folder
from tests.unit.text import tiny_tokenizer
from tests.unit.text.tiny_tokenizer import BOS, EOS, to_ids
from workers.text.vocabulary import Vocabulary

TEXTS = [
    "",
    "The capital of France is Paris.",
    "  indented\n\tcode()  # twice  \r\n\n\n",
    "대한민국의 수도는 서울특별시입니다. 갂꿻뷁",
    "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 e\u0301 ﷽ 𒐫",
    "naïve Ωμέγα Привет مرحبا 日本語 नमस्ते",
    "\x00\x01\x7f \u2028\ufeff\ufffd",
    "don't 'twas 3.14159 100000 a+b==c</s><|im_end|>",
]


@pytest.fixture(scope="module")
def starter():
    return AutoTokenizer.from_pretrained(starter_folder())


@pytest.fixture(scope="module")
def starter_vocabulary(starter):
    return Vocabulary(starter, len(starter))


@pytest.mark.parametrize("text", TEXTS)
def test_the_starter_models_text_equals_its_tokenizers(starter, starter_vocabulary, text):
    ids = starter.encode(text)
    assert starter_vocabulary.decode(ids) == starter.decode(ids) == text


@settings(max_examples=80)
@given(st.data())
def test_any_ids_of_the_starter_model_decode_as_its_tokenizer_decodes_them(
    starter, starter_vocabulary, data
):
    wild = st.lists(st.integers(0, len(starter) - 1), max_size=20)
    ids = data.draw(st.one_of(wild, st.text(max_size=20).map(starter.encode)))
    assert starter_vocabulary.decode(ids) == starter.decode(ids)


def test_every_byte_of_a_byte_level_tokenizer_is_itself():
    vocabulary = Vocabulary(tiny_tokenizer.byte_level(), 259)
    assert [vocabulary.pieces[index] for index in to_ids(bytes(range(256)))] == [
        bytes((byte,)) for byte in range(256)
    ]


PIECES = ["▁", "▁the", "▁▁", "a", "한", "국어", "▁서", "😀", ".", "\n", "▁<x>"]
ADDED = ["▁▁▁▁", "\n\n", "<tool>", "É"]
KINDS = {
    "byte level": tiny_tokenizer.byte_level(
        [b" the", "한".encode(), b"\xed\x95", b"\x9c ", "👩‍👧".encode()[:5], b"\n\n"],
        ["<tool>", "a b"],
    ),
    "Llama 2": tiny_tokenizer.sentence_piece(PIECES, ADDED, strips=True),
    "Gemma": tiny_tokenizer.sentence_piece(PIECES, ADDED, strips=False),
    # Its decoder drops all the spaces of a first token, we one: "▁▁" is left out.
    "T5": tiny_tokenizer.metaspace([piece for piece in PIECES if piece != "▁▁"], "always"),
    "T5 without a first space": tiny_tokenizer.metaspace(PIECES, "never"),
}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=150)
@given(data=st.data())
def test_text_equals_what_the_decoder_says(kind, data):
    """Broken characters apart: SentencePiece decoders write a mark per byte, we one per piece."""
    tokenizer = KINDS[kind]
    vocabulary = Vocabulary(tokenizer, len(tokenizer))
    # Words and added tokens as often as single bytes.
    words, size = st.integers(len(tokenizer) - 13, len(tokenizer) - 1), len(tokenizer)
    ids = data.draw(st.lists(st.one_of(words, st.integers(0, size - 1)), max_size=12))
    data_bytes = b"".join(vocabulary.pieces[index] for index in ids)
    if kind != "byte level" and "\ufffd" in data_bytes.decode("utf-8", "replace"):
        ids = [index for index in ids if len(vocabulary.pieces[index]) != 1]
    expected = tokenizer.decode(ids)
    text = vocabulary.decode(ids)
    if vocabulary.strips_first_space:
        text = text.removeprefix(" ")
    assert text == expected


@pytest.mark.parametrize(
    ("kind", "strips"),
    [
        ("byte level", False),
        ("Llama 2", True),
        ("Gemma", False),
        ("T5", True),
        ("T5 without a first space", False),
    ],
)
def test_a_decoder_that_drops_the_first_space_is_known(kind, strips):
    tokenizer = KINDS[kind]
    assert Vocabulary(tokenizer, len(tokenizer)).strips_first_space == strips


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_are_control_tokens_and_other_added_ones_are_text(kind):
    tokenizer = KINDS[kind]
    vocabulary = Vocabulary(tokenizer, len(tokenizer))
    assert vocabulary.control_ids == {0, 1, 2}
    assert vocabulary.decode([1, 2]) == BOS + EOS


def test_rows_of_the_head_without_a_token_are_empty():
    vocabulary = Vocabulary(tiny_tokenizer.byte_level(), 320)
    assert len(vocabulary) == 320
    assert vocabulary.decode([259, 319]) == ""


def test_a_head_smaller_than_the_tokenizer_is_no_failure():
    vocabulary = Vocabulary(tiny_tokenizer.byte_level(added=["<tool>"]), 100)
    assert len(vocabulary) == 100
    assert vocabulary.decode(to_ids(b"A")) == "A"
