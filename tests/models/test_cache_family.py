"""The text engine relies on this: rows join and leave mlx-lm's caches without changing their text.

The rows of each family are prefilled alone, merged, decoded together, joined by others, extracted,
decoded alone and put back, also past the sliding window. At every step their logits must equal
those of a row that runs alone. A cache error changes logits by tenths, rounding by 1e-5, in
float16 by 1e-2 (in bfloat16 by as much as an error, so it shows nothing here).
"""

from __future__ import annotations

import gc
import itertools
from types import SimpleNamespace

import mlx.core as mx
import mlx_lm
import numpy as np
import pytest
from mlx_lm.models.cache import make_prompt_cache

from tests.checkpoint import build
from workers.text.engine.batch import Batch

# Around the 32 tokens of the sliding window, and one prompt without prefill.
LENGTHS_TOKENS = (19, 1, 32, 90, 33)
STEPS = 120
TOLERANCES = {"float32": 1e-3, "float16": 0.05}


class Row:
    """A prompt with its text and logits when it runs alone."""

    def __init__(self, model, length_tokens):
        self._model = model
        rng = np.random.default_rng(length_tokens)
        self.prompt = rng.integers(10, 256, length_tokens).tolist()
        self.next, self.done = self.prompt[-1], 0
        self.expected = self._alone()

    def prefill(self, chunk_tokens=512):
        return prefill(self._model, self.prompt[:-1], chunk_tokens)

    def _alone(self):
        cache, token, steps = self.prefill(), self.prompt[-1], []
        for _ in range(STEPS):
            logits = decode(self._model, cache, [token])[0]
            steps.append(logits)
            token = int(logits.argmax())
        return steps

    def take(self, logits):
        """Compare, and go on with the token of the row alone, so that no near tie parts them."""
        expected = self.expected[self.done]
        tolerance = TOLERANCES[self._model.dtype]
        assert np.abs(logits - expected).max() < tolerance, f"step {self.done}"
        assert expected.max() - expected[logits.argmax()] < 2 * tolerance, f"step {self.done}"
        self.next, self.done = int(expected.argmax()), self.done + 1


def prefill(model, tokens, chunk_tokens=512):
    cache = make_prompt_cache(model)
    for start in range(0, len(tokens), chunk_tokens):
        model(mx.array([tokens[start : start + chunk_tokens]]), cache=cache)
        mx.eval([part.state for part in cache])
    return cache


def decode(model, cache, tokens):
    logits = model(mx.array(tokens)[:, None], cache=cache)[:, -1]
    return np.array(logits.astype(mx.float32))


def run(model, cache, rows, steps):
    for _ in range(steps):
        for row, logits in zip(rows, decode(model, cache, [row.next for row in rows]), strict=True):
            row.take(logits)


def merge(*caches):
    return [parts[0].merge(list(parts)) for parts in zip(*caches, strict=True)]


def extend(cache, other):
    for part, more in zip(cache, other, strict=True):
        part.extend(more)


def extract(cache, index):
    row = [part.extract(index) for part in cache]
    mx.eval([part.state for part in row])
    return row


def keep(cache, indices):
    for part in cache:
        part.filter(indices)


@pytest.fixture(
    scope="module",
    params=itertools.product(["llama", "sliding", "recurrent"], TOLERANCES),
    ids="-".join,
)
def model(request):
    model = mlx_lm.load(str(build(*request.param)))[0]
    model.dtype = request.param[1]
    return model


def test_prefill_in_chunks_equals_prefill_at_once(model):
    row = Row(model, 150)
    for chunk_tokens in (64, 16, 1):
        row.next, row.done = row.prompt[-1], 0
        run(model, row.prefill(chunk_tokens), [row], steps=40)


def test_rows_that_join_leave_and_return_keep_their_text(model):
    a, b, c, d, e = (Row(model, length) for length in LENGTHS_TOKENS)
    cache = merge(a.prefill(), b.prefill(), c.prefill())
    run(model, cache, [a, b, c], steps=25)
    extend(cache, merge(d.prefill(chunk_tokens=16)))  # longer than all others
    run(model, cache, [a, b, c, d], steps=20)

    parked = extract(cache, 1)
    keep(cache, [0, 2, 3])
    run(model, parked, [b], steps=7)  # continues alone
    run(model, cache, [a, c, d], steps=45)  # wraps the window meanwhile
    extend(cache, merge(parked))
    extend(cache, merge(e.prefill()))
    run(model, cache, [a, c, d, b, e], steps=10)

    keep(cache, [3, 4])  # the short ones remain
    run(model, cache, [b, e], steps=50)
    last = extract(cache, 1)
    run(model, last, [e], steps=STEPS - e.done)
    keep(cache, [0])
    run(model, cache, [b], steps=STEPS - b.done)
    assert (a.done, c.done, d.done, b.done, e.done) == (100, 100, 75, STEPS, STEPS)


def test_an_extracted_row_holds_only_its_own_memory(model):
    def held_bytes():
        gc.collect()
        mx.clear_cache()
        return mx.get_active_memory()

    rng = np.random.default_rng(0)
    prompts = rng.integers(10, 256, (16, 100)).tolist()
    before = held_bytes()
    batch = Batch(SimpleNamespace())
    batch._cache = merge(*(prefill(model, prompt) for prompt in prompts))
    decode(model, batch._cache, [1] * 16)
    batch_bytes = batch.kv_bytes
    row = batch._extract(3)
    mx.eval([part.state for part in row])
    del batch
    assert held_bytes() - before < batch_bytes / 8
