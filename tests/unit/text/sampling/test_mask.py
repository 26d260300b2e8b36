"""Which logits are left of a row that a grammar, a forced or a barred token constrains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import llguidance.hf
import mlx.core as mx
import numpy as np
import pytest
from llguidance import LLMatcher
from transformers import AutoTokenizer

from tests.checkpoint import starter_folder
from workers.text.sampling import mask

VOCAB = 49152


@dataclass
class Rule:
    forced: int | None = None
    matcher: LLMatcher | None = None
    alternative: int | None = None
    barred: Sequence[int] = ()


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(starter_folder())


@pytest.fixture(scope="module")
def vocabulary(tokenizer):
    return llguidance.hf.from_tokenizer(tokenizer, n_vocab=VOCAB)


@pytest.fixture
def matcher(vocabulary):
    return LLMatcher(vocabulary, LLMatcher.grammar_from_regex("yes"))


def make_logits(rows):
    return np.random.default_rng(0).normal(size=(rows, VOCAB)).astype(np.float32)


def apply(logits, rules):
    return np.array(mask.apply(mx.array(logits), rules))


def list_allowed(row):
    return np.flatnonzero(np.isfinite(row)).tolist()


def test_rows_without_a_grammar_keep_their_logits(matcher, tokenizer):
    before = make_logits(3)
    after = apply(before, [None, Rule(matcher=matcher, alternative=7), Rule()])
    assert np.array_equal(after[[0, 2]], before[[0, 2]])
    allowed = list_allowed(after[1])
    texts = {tokenizer.decode([token]) for token in allowed if token != 7}
    assert "yes" in texts
    assert texts <= {"y", "ye", "yes"}
    assert 7 in allowed
    assert np.array_equal(after[1][allowed], before[1][allowed])


def test_a_batch_of_constrained_rows_gets_a_mask_each(matcher):
    other = matcher.deep_copy()
    before = make_logits(2)
    alone = [apply(before[:1], [Rule(matcher=rule)])[0] for rule in (matcher, other)]
    other.consume_token(list_allowed(alone[1])[0])
    first, second = apply(before, [Rule(matcher=matcher), Rule(matcher=other)])
    assert list_allowed(first) == list_allowed(alone[0])
    assert list_allowed(second) != list_allowed(first)


def test_barred_tokens_are_removed_and_all_others_stay():
    before = make_logits(2)
    after = apply(before, [None, Rule(barred=[2, 0])])
    assert np.array_equal(after[0], before[0])
    assert np.flatnonzero(~np.isfinite(after[1])).tolist() == [0, 2]


@pytest.mark.parametrize("token", [0, 5])
def test_a_forced_token_is_the_only_one_left(matcher, token):
    before = make_logits(2)
    after = apply(before, [None, Rule(forced=token, matcher=matcher)])
    assert np.array_equal(after[0], before[0])
    assert list_allowed(after[1]) == [token]
