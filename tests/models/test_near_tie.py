"""A resumed answer keeps every token that was sent, whatever the type of the weights.

What follows is the same text in float32, as the tests of whole servers show. In 16 bits, a pass
over all given tokens rounds otherwise than one step per token did, so two tokens that are nearly
equally likely may change places. Greedy, on the engine's batch.
"""

from __future__ import annotations

import itertools

import mlx.core as mx
import numpy as np
import pytest

from shared.settings import TextSettings
from tests.checkpoint import build
from tests.client import NEAR
from tests.unit.text.request import make_sequence
from workers.text.engine.batch import Batch
from workers.text.model import load_text_model
from workers.text.sampling.filter import SamplingRule

DTYPES = ("float16", "bfloat16", "4bit")
FAMILIES = ("llama", "sliding", "recurrent")
TOKENS = 40
# Tokens that were sent before the worker died.
SENT = (20,)


@pytest.fixture(
    scope="module",
    params=itertools.product(["llama", "sliding", "recurrent"], DTYPES),
    ids="-".join,
)
def model(request):
    return load_text_model(build(*request.param), TextSettings())


def make_row(model, prompt, sent=()):
    sequence = make_sequence(model.vocabulary, forced_ids=sent, max_tokens=TOKENS)
    sequence.prompt = prompt
    sequence.sampling = SamplingRule(temperature=0)
    sequence.replay()
    return sequence


def generate(model, *rows):
    """Return the ids of rows that decode together, and of each the ids it sends."""
    batch = Batch(model)
    for row in rows:
        batch.prefill(row, 512)
        first = batch.first(row)
        row.take_token(first.token, first.info)
    batch.join(rows)
    while len(rows[0].ids) < TOKENS:
        batch.build()
        for item in batch.collect():
            item.sequence.take_token(item.token, item.info)
        batch.launch()
    for row in rows:
        row.read()
    return [(row.ids[:TOKENS], list(row.take_frame().token_ids)) for row in rows]


def find_tie(model, prompt, found, expected):
    """Return where two texts part and by how much the logits of the two tokens differ there."""
    pairs = enumerate(zip(found, expected, strict=True))
    index = next((index for index, (one, other) in pairs if one != other), None)
    if index is None:
        return None
    ids = mx.array([prompt + expected[:index]])
    logits = model.forward(ids, model.new_cache())[0].astype(mx.float32)
    return index, abs(logits[found[index]] - logits[expected[index]]).item()


def test_a_resumed_text_parts_at_a_near_tie_at_the_earliest(model):
    prompt = np.random.default_rng(7).integers(10, 256, 45).tolist()
    ((expected, _),) = generate(model, make_row(model, prompt))
    for count in SENT:
        sent = expected[:count]
        ((found, more),) = generate(model, make_row(model, prompt, sent))
        assert found[:count] == sent
        assert found == sent + more
        tie = find_tie(model, prompt, found, expected)
        assert tie is None or tie[1] < NEAR, f"token {tie[0]}: the logits differ by {tie[1]}"
