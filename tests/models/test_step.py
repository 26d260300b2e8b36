"""Batched and reordered computation gives the same result as one sequence at a time."""

from __future__ import annotations

import random

import mlx.core as mx
import pytest

from shared.settings import TextSettings
from tests.checkpoint import build
from tests.unit.text.request import make_sequence
from workers.text import model as models
from workers.text.engine.batch import Batch
from workers.text.sampling.filter import SamplingRule

LENGTHS_TOKENS = (20, 33, 40, 21)


@pytest.fixture(scope="module", params=["float32", "float16", "bfloat16"])
def model(request):
    return models.load_text_model(build("llama", request.param), TextSettings())


def make_sequences(model):
    rng = random.Random(1)
    sequences = [make_sequence(model.vocabulary) for _ in LENGTHS_TOKENS]
    for sequence, length in zip(sequences, LENGTHS_TOKENS, strict=True):
        sequence.prompt = [rng.randrange(10, 256) for _ in range(length)]
    return sequences


def test_prompts_prefilled_together_get_the_same_caches_and_tokens_as_alone(model):
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


def decode(model, *, ahead):
    """Return the tokens of rows of which one joins and one leaves during the run."""
    batch, sequences = Batch(model), make_sequences(model)
    for seed, sequence in enumerate(sequences):
        sequence.request.sampling.seed = seed
        sequence.sampling = SamplingRule(temperature=0.9, top_k=20)
        batch.prefill(sequence, 512)
        first = batch.first(sequence)
        sequence.take_token(first.token, first.info)
    *rows, late = sequences
    batch.join(rows)
    for number in range(12):
        batch.build()
        is_launched = ahead and batch.launch_ahead()
        assert is_launched == ahead
        for item in batch.collect():
            item.sequence.take_token(item.token, item.info)
        if number == 8:
            batch.drop(rows[:1])
        if not is_launched:
            batch.launch()
        if number == 4:
            batch.join([late])
    for item in batch.collect():
        item.sequence.take_token(item.token, item.info)
    return [sequence.ids for sequence in sequences]


def test_a_step_launched_ahead_samples_the_same_tokens(model):
    assert decode(model, ahead=True) == decode(model, ahead=False)


def test_a_row_that_needs_its_last_token_is_not_launched_ahead(model):
    batch, sequences = Batch(model), make_sequences(model)[:2]
    sequences[1].logprobs = 0
    for sequence in sequences:
        batch.prefill(sequence, 512)
    batch.join(sequences)
    batch.build()
    assert not batch.launch_ahead()
    batch.drop(sequences[1:])
    assert batch.launch_ahead()
