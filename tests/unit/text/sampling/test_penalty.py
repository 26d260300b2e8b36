"""Look-back rules against naive readings: one row, every formula written out, O(n²) for DRY."""

from __future__ import annotations

import math
from collections import Counter

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.text.sampling.penalty import PenaltyRule, apply, dry_penalties

SIZE = 13
INF = float("inf")


def read_dry(rule, context):
    """Return what DRY takes from each token, by comparing everything with everything."""
    tokens = context[-rule.dry_window_tokens :] if rule.dry_window_tokens else context
    last = len(tokens) - 1
    # A match may not reach back past the last breaker.
    limit = next((i for i, t in enumerate(reversed(tokens)) if t in rule.dry_breaker_ids), last + 1)
    longest = {}
    for end in range(last):
        length = 0
        while length < limit and length <= end and tokens[end - length] == tokens[last - length]:
            length += 1
        if length >= rule.dry_allowed_length:
            longest[tokens[end + 1]] = max(length, longest.get(tokens[end + 1], 0))
    most = 88.7228391 / math.log(rule.dry_base) if rule.dry_base > 1 else INF
    return {
        token: rule.dry_multiplier
        * rule.dry_base ** min(length - rule.dry_allowed_length, math.floor(min(most, 1e6)))
        for token, length in longest.items()
        if token not in rule.dry_breaker_ids
    }


def read_row(logits, rule, context):
    """Return one row after bias, penalties and DRY, in this order."""
    values = np.array(logits, dtype=np.float64)
    for token, value in rule.bias.items():
        values[token] += value
    window = context[-rule.window_tokens :] if rule.window_tokens > 0 else []
    for token, count in Counter(window).items():
        value = values[token]
        value = value / rule.repetition if value > 0 else value * rule.repetition
        values[token] = value - rule.frequency * count - rule.presence
    if rule.dry_multiplier > 0:
        for token, taken in read_dry(rule, context).items():
            values[token] -= taken
    return values


def penalise(logits, rules, contexts, dtype=mx.float32):
    table = mx.array(np.array(logits, dtype=np.float32)).astype(dtype)
    return np.array(apply(table, rules, contexts).astype(mx.float32))


# -------------------------------------------------------------- the three penalties

ROW = np.linspace(-3, 3, SIZE)


@pytest.mark.parametrize(
    ("rule", "context", "expected"),
    [
        (PenaltyRule(repetition=2.0), [12, 12, 0], {12: 1.5, 0: -6.0}),
        (PenaltyRule(repetition=2.0, window_tokens=1), [12, 0], {0: -6.0}),
        (PenaltyRule(repetition=2.0, window_tokens=0), [12, 0], {}),
        (PenaltyRule(frequency=0.5), [12, 0, 12], {12: 2.0, 0: -3.5}),
        (PenaltyRule(presence=0.5), [12, 0, 12], {12: 2.5, 0: -3.5}),
        (PenaltyRule(frequency=0.5, presence=1.0), [12, 0, 12], {12: 1.0, 0: -4.5}),
        (PenaltyRule(frequency=-0.5), [6], {6: 0.5}),
        # The quotient first, then what is taken off.
        (PenaltyRule(repetition=2.0, frequency=1.0), [12], {12: 0.5}),
        # A bias may turn a logit's sign, and with it what repetition does.
        (PenaltyRule(repetition=2.0, bias={0: 5.0}), [0], {0: 1.0}),
        (PenaltyRule(bias={3: -INF, 4: 0.25}), [], {3: -INF, 4: -0.75}),
        (PenaltyRule(repetition=1.5, bias={3: -INF}), [3], {3: -INF}),
        (PenaltyRule(repetition=1.5), [], {}),
    ],
)
def test_each_penalty_does_what_its_formula_says(rule, context, expected):
    row = ROW.copy()
    for token, value in expected.items():
        row[token] = value
    np.testing.assert_allclose(read_row(ROW, rule, context), row, err_msg="the reading itself")
    np.testing.assert_allclose(penalise([ROW], [rule], [context])[0], row, rtol=1e-6)


token_ids = st.integers(0, SIZE - 1)
logits = st.lists(st.floats(-8, 8, width=16), min_size=SIZE, max_size=SIZE)
rules = st.builds(
    PenaltyRule,
    bias=st.dictionaries(token_ids, st.sampled_from([-INF, -2.5, 0.5, 100.0]), max_size=4),
    repetition=st.sampled_from([1.0, 1.1, 1.7, 0.8]),
    frequency=st.sampled_from([0.0, 0.4, -1.0]),
    presence=st.sampled_from([0.0, 0.7, -0.3]),
    window_tokens=st.sampled_from([0, 1, 3, 64]),
    dry_multiplier=st.sampled_from([0.0, 0.8]),
    dry_allowed_length=st.integers(1, 3),
    dry_window_tokens=st.sampled_from([0, 5, 64]),
    dry_breaker_ids=st.frozensets(token_ids, max_size=2),
)
row_cases = st.tuples(logits, rules, st.lists(token_ids, max_size=30))


@settings(max_examples=80)
@given(st.lists(row_cases, min_size=1, max_size=5))
def test_rows_of_one_call_each_get_their_own_penalties(cases):
    table, row_rules, contexts = zip(*cases, strict=True)
    got = penalise(table, row_rules, contexts)
    for row, case in enumerate(cases):
        np.testing.assert_allclose(got[row], read_row(*case), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.float16], ids=str)
def test_rows_that_ask_for_nothing_stay_as_they_are(dtype):
    table = mx.random.normal((4, 64), key=mx.random.key(1)).astype(dtype)
    before = np.array(table.astype(mx.float32))
    quiet, loud = PenaltyRule(), PenaltyRule(repetition=1.5, bias={5: 3.0})
    after = apply(table, [quiet, loud, quiet, loud], [[1, 2], [1, 2], [], []])
    changed = np.array(after.astype(mx.float32)) != before
    assert np.argwhere(changed).tolist() == [[1, 1], [1, 2], [1, 5], [3, 5]]


@pytest.mark.parametrize("dtype", [mx.bfloat16, mx.float16], ids=str)
def test_values_smaller_than_a_step_of_16_bits_count(dtype):
    """The steps near 20.9 are 0.125 in bfloat16 and 0.016 in float16."""
    table = mx.array([[20.9, 20.9, 20.9, -3.0]]).astype(dtype)
    before = np.array(table.astype(mx.float32))
    rule = PenaltyRule(bias={1: 0.05, 2: 0.004}, presence=0.1)
    after = apply(table, [rule], [[0, 3]])
    taken = np.array(after.astype(mx.float32)) - before
    np.testing.assert_allclose(taken, [[-0.1, 0.05, 0.004, -0.1]], atol=1e-5)
    assert mx.argmax(after).item() == 1


@pytest.mark.parametrize("dtype", [mx.bfloat16, mx.float16], ids=str)
def test_logits_that_nothing_changes_keep_their_type(dtype):
    table = mx.zeros((2, 8), dtype=dtype)
    assert apply(table, [PenaltyRule(presence=1.0)] * 2, [[], []]).dtype == dtype


def test_without_any_rule_nothing_is_computed():
    table = mx.zeros((3, 8))
    assert apply(table, [PenaltyRule()] * 3, [[1]] * 3) is table


# ------------------------------------------------------------------------------ DRY


@settings(max_examples=400)
@given(
    st.lists(st.integers(0, 4), max_size=50),
    st.builds(
        PenaltyRule,
        dry_multiplier=st.sampled_from([0.8, 2.0]),
        dry_base=st.sampled_from([1.0, 1.75, 3.0]),
        dry_allowed_length=st.integers(1, 5),
        dry_window_tokens=st.sampled_from([0, 1, 2, 7, 20, 64]),
        dry_breaker_ids=st.frozensets(st.integers(0, 4), max_size=2),
    ),
)
def test_dry_equals_comparing_every_end_with_the_tail(context, rule):
    assert dry_penalties(rule, context) == pytest.approx(read_dry(rule, context))


@pytest.mark.parametrize(
    ("context", "values", "expected"),
    [
        # "1 2 3" came before, followed by 4: a match of three.
        ([1, 2, 3, 4, 1, 2, 3], {}, {4: 1.75}),
        ([1, 2, 4, 1, 2], {}, {4: 1.0}),
        ([1, 2, 4, 1, 2], {"dry_allowed_length": 3}, {}),
        ([2, 4, 1, 2], {}, {}),
        ([2, 4, 1, 2], {"dry_allowed_length": 1}, {4: 1.0}),
        # The longest match of those that 4 follows counts.
        ([1, 2, 3, 4, 9, 2, 3, 4, 1, 2, 3], {}, {4: 1.75}),
        # A breaker inside the match shortens it; as the last token it forbids any.
        ([1, 2, 3, 4, 1, 2, 3], {"dry_breaker_ids": frozenset({1})}, {4: 1.0}),
        ([1, 2, 3, 4, 1, 2, 3], {"dry_breaker_ids": frozenset({3})}, {}),
        # A breaker is never taken from.
        ([1, 2, 3, 4, 1, 2, 3], {"dry_breaker_ids": frozenset({4})}, {}),
        # Outside of the window nothing is seen.
        ([1, 2, 3, 4, 1, 2, 3], {"dry_window_tokens": 6}, {4: 1.0}),
        ([1, 2, 3, 4, 1, 2, 3], {"dry_window_tokens": 4}, {}),
        # A match may overlap the tail.
        ([5, 5, 5, 5], {}, {5: 1.75}),
        ([], {}, {}),
        ([1], {}, {}),
    ],
)
def test_dry_punishes_what_would_prolong_a_repetition(context, values, expected):
    rule = PenaltyRule(dry_multiplier=1.0, **values)
    assert read_dry(rule, context) == pytest.approx(expected), "the reading itself"
    assert dry_penalties(rule, context) == pytest.approx(expected)


@pytest.mark.parametrize("base", [1.0, 1.01, 1.75, 2.0, 4.0])
def test_a_long_repetition_is_taken_out_without_overflow(base):
    """The exponent stops where float32 would; nothing becomes NaN and no other token changes."""
    rule = PenaltyRule(dry_multiplier=3.0, dry_base=base)
    context = [7] * 3000
    row = penalise([ROW], [rule], [context])[0]
    assert not np.isnan(row).any()
    assert row[7] < ROW[7] - 2.9
    np.testing.assert_allclose(np.delete(row, 7), np.delete(ROW, 7), rtol=1e-6)
    exponent = min(1024, 88.7228391 // math.log(max(base, 1.001)))
    assert dry_penalties(rule, context)[7] == pytest.approx(min(3.0 * base**exponent, 3.4028235e38))


@pytest.mark.parametrize(
    ("rule", "active"),
    [
        (PenaltyRule(), False),
        (PenaltyRule(repetition=1.1, window_tokens=0), False),
        (PenaltyRule(repetition=1.1), True),
        (PenaltyRule(dry_multiplier=0.5, dry_base=0.9), False),
        (PenaltyRule(dry_multiplier=0.5), True),
        (PenaltyRule(bias={1: 1.0}), True),
    ],
)
def test_a_row_costs_nothing_unless_something_is_on(rule, active):
    assert rule.active == active
