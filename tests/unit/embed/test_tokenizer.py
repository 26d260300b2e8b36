"""Texts become rows that are never empty, too long or out of vocabulary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.embed.instruction import write_instruction, write_rerank_prompt


@pytest.fixture(scope="session")
def model(make_checkpoint, load_model):
    return load_model(make_checkpoint("bert"))


@pytest.fixture(scope="session")
def tokenizer(model):
    return model.tokenizer


def test_a_long_text_is_truncated_on_the_right_and_keeps_its_last_special_token(tokenizer):
    (short,), (long,) = tokenizer.encode(["river"]), tokenizer.encode(["river " * 5000])
    assert len(short) == 3
    assert len(long) == tokenizer.longest == 160
    assert (long.ids[0], long.ids[-1]) == (short.ids[0], short.ids[-1])


def test_padding_and_truncation_of_tokenizer_json_are_ignored(tokenizer):
    (row,) = tokenizer.encode(["river bank money water the of a flows"])
    assert len(row) == 10


def test_given_ids_are_used_unchanged_and_truncated(tokenizer):
    assert tokenizer.make_row([5, 6]).ids.tolist() == [5, 6]
    assert len(tokenizer.make_row([5] * 999)) == 160


@pytest.mark.parametrize("blank", [" " * 200_000, "\n" * 10_300])
def test_text_after_much_white_space_is_tokenized(tokenizer, blank):
    (row,) = tokenizer.encode([f"{blank}river"])
    assert row.ids.tolist() == tokenizer.encode(["river"])[0].ids.tolist()


def test_text_after_very_much_white_space_is_ignored(tokenizer):
    (row,) = tokenizer.encode([f"{' ' * 1024 * 1024}river"])
    assert len(row) == 2


def test_clipping_a_text_before_the_tokenizer_changes_no_token(tokenizer):
    text = "the river flows deep " * 2000
    whole = tokenizer._tokenizer.encode(text).ids
    assert tokenizer.encode([text])[0].ids.tolist() == whole


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=60))
def test_any_text_becomes_a_valid_row(model, text):
    (row,) = model.tokenizer.encode([text])
    assert 1 <= len(row) <= model.tokenizer.longest
    assert 0 <= row.ids.min() <= row.ids.max() < model.card.vocab_tokens


def test_the_longer_text_of_a_long_pair_is_truncated(tokenizer):
    query = "river bank"
    (row,) = tokenizer.encode_pairs(query, ["water " * 999])
    assert len(row) == 160
    assert row.ids[1:3].tolist() == tokenizer.encode([query])[0].ids[1:3].tolist()
    assert row.types.tolist() == [0] * 4 + [1] * 156


def test_each_family_has_its_own_form_of_instruction():
    written = [
        write_instruction(family, "find", "x") for family in ("qwen3", "gemma3_text", "bert")
    ]
    assert written == ["Instruct: find\nQuery:x", "task: find | query: x", "findx"]
    assert write_instruction("qwen3", "", "x") == "x"


def test_a_rerank_without_instruction_uses_the_model_cards_default():
    assert write_rerank_prompt("  ", "q", "d") == (
        "<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n"
        "<Query>: q\n<Document>: d"
    )
