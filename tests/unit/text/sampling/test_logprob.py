"""Log-probabilities against a log-softmax in float64."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.text.sampling.logprob import Logprob


def log_softmax(logits):
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def report(logits, tokens, wanted):
    found = Logprob.of(mx.array(logits), mx.array(np.int32(tokens)), wanted)
    assert found is not None
    return found.read(list(tokens))


@settings(max_examples=60)
@given(st.data())
def test_every_row_gets_what_it_asked_for(data):
    size = data.draw(st.sampled_from([1, 7, 40, 1000, 4099]))
    rows = data.draw(st.integers(1, 5))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    logits = rng.normal(0, 4, (rows, size)).astype(np.float32)
    if data.draw(st.booleans()):
        logits = np.round(logits)
    counts = st.one_of(st.none(), st.integers(0, 20))
    wanted = data.draw(st.lists(counts, min_size=rows, max_size=rows).filter(any_asked))
    tokens = rng.integers(0, size, rows)
    expected = log_softmax(logits.astype(np.float64))
    infos = report(logits, tokens.tolist(), wanted)
    for row, count in enumerate(wanted):
        info = infos[row]
        if count is None:
            assert info is None
            continue
        assert info.id == tokens[row]
        assert info.logprob == pytest.approx(expected[row, tokens[row]], abs=1e-4)
        assert len(info.top) == min(count, size)
        values = [entry.logprob for entry in info.top]
        assert values == sorted(values, reverse=True)
        assert len({entry.id for entry in info.top}) == len(info.top)
        largest = np.sort(expected[row])[::-1][: len(values)]
        np.testing.assert_allclose(values, largest, atol=1e-4)
        for entry in info.top:
            assert entry.logprob == pytest.approx(expected[row, entry.id], abs=1e-4)


def any_asked(wanted):
    return any(count is not None for count in wanted)


def test_nothing_is_computed_when_nobody_asks():
    assert Logprob.of(mx.zeros((2, 5)), mx.array([1, 2]), [None, None]) is None


def test_removed_tokens_are_named_after_the_others_and_lie_in_the_vocabulary():
    """Fewer tokens than alternatives may be left, in a vocabulary that fills no whole block."""
    logits = np.full((1, 4099), -np.inf, dtype=np.float32)
    logits[0, [5, 77]] = [1.0, 2.0]
    (info,) = report(logits, [77], [20])
    assert [entry.id for entry in info.top[:2]] == [77, 5]
    assert all(entry.id < 4099 for entry in info.top)
    assert all(entry.logprob == -np.inf for entry in info.top[2:])


def test_logits_in_half_precision_are_summed_in_full():
    logits = mx.random.normal((1, 30_000), key=mx.random.key(3)).astype(mx.bfloat16)
    exact = log_softmax(np.array(logits.astype(mx.float32)).astype(np.float64))
    found = Logprob.of(logits, mx.array([17]), [1])
    assert found is not None
    (info,) = found.read([17])
    assert info.logprob == pytest.approx(exact[0, 17], abs=1e-4)
