"""Prompts that are fed side by side become what each becomes alone."""

from __future__ import annotations

import random

import mlx.core as mx
import pytest

from shared.settings import TextSettings
from tests.checkpoint import build
from tests.unit.text.request import make_sequence
from workers.text import model as models
from workers.text.batch import Batch

LENGTHS_TOKENS = (20, 33, 40, 21)


@pytest.fixture(scope="module")
def model():
    return models.load(build("llama"), TextSettings())


def make_sequences(model):
    rng = random.Random(1)
    sequences = [make_sequence(model.vocabulary) for _ in LENGTHS_TOKENS]
    for sequence, length in zip(sequences, LENGTHS_TOKENS, strict=True):
        sequence.prompt = [rng.randrange(100, model.vocab_tokens) for _ in range(length)]
    return sequences


def test_prompts_of_several_lengths_in_one_pass_get_the_caches_and_tokens_of_each_alone(model):
    batch = Batch(model)
    alone, together = make_sequences(model), make_sequences(model)
    for sequence in alone:
        assert batch.prefill(sequence, 512) == len(sequence.prompt)
    assert batch.prefill_together(together) == max(LENGTHS_TOKENS) * len(LENGTHS_TOKENS)

    for one, other in zip(alone, together, strict=True):
        assert batch.first(one).token == batch.first(other).token
        assert one.fed_tokens == other.fed_tokens == len(one.prompt)
        for mine, its in zip(one.cache, other.cache, strict=True):
            assert mine.offset == its.offset == len(one.prompt)
            for left, right in zip(mine.keys_and_values(), its.keys_and_values(), strict=True):
                assert mx.allclose(left, right, atol=1e-5)
