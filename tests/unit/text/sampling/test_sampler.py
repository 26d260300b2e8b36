"""Sampling against a plain numpy reading of the reference's formulas.

Temperature is the last rule and no filter but p-less looks at it, so a huge one makes all that
the filters leave equally likely: a few hundred draws then show the whole set, from outside.
"""

from __future__ import annotations

import dataclasses

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.unit.text import reading
from workers.text.sampling.filter import MAX_CANDIDATES, SamplingRule
from workers.text.sampling.sampler import (
    DRAW_TOKEN,
    DRAW_XTC,
    Sampler,
    pick,
    remaining,
    top_candidates,
    uniform,
)

PLAIN = SamplingRule(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
FLAT = 1e6
# A token of probability 1 in 24 is missed by this many draws once in a billion times.
PROBES = 500
# Closer decisions than this are float32's to make.
NEAR = 2e-5
INF = float("inf")


def rule(**values):
    return dataclasses.replace(PLAIN, **values)


def draw(logits, rules, seeds, positions=None, keep_ids=()):
    """Return the tokens of rows that all see the same logits."""
    rows = len(rules)
    sampler = Sampler(rules, seeds, len(logits), keep_ids)
    table = mx.broadcast_to(mx.array(np.array(logits, dtype=np.float32)), (rows, len(logits)))
    return np.array(sampler.sample(table, positions or [0] * rows))


def reachable(logits, asked, keep_ids=()):
    """Return the ids that can be drawn."""
    if not asked.p_less:
        asked = dataclasses.replace(asked, temperature=FLAT)
    return sorted(set(draw(logits, [asked] * PROBES, range(PROBES), keep_ids=keep_ids).tolist()))


def reachable_logits(logits, asked):
    return np.sort(np.array(logits, dtype=np.float64)[reachable(logits, asked)])


# ------------------------------------------------------------------- single rules

LADDER = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
CASES = {
    "nothing on keeps everything": (LADDER, {}, LADDER),
    "top-k keeps the k largest": (LADDER, {"top_k": 2}, [4, 5]),
    "top-k of one": (LADDER, {"top_k": 1}, [5]),
    "top-k of the vocabulary": (LADDER, {"top_k": 6}, LADDER),
    "top-k above the vocabulary": (LADDER, {"top_k": 60_000}, LADDER),
    "top-k in the middle of a tie keeps just k": ([1, 2, 2, 2, 3], {"top_k": 3}, [2, 2, 3]),
    "top-p stops once the mass is reached": ([0, 0, 0, 0], {"top_p": 0.5}, [0, 0]),
    "top-p keeps the token that crosses it": ([0, 0, 0, 0], {"top_p": 0.51}, [0, 0, 0]),
    "top-p of zero keeps the likeliest": (LADDER, {"top_p": 0.0}, [5]),
    "top-p of one is off": (LADDER, {"top_p": 1.0}, LADDER),
    # e^-2 is 0.135.
    "min-p compares with the likeliest": (LADDER, {"min_p": 0.13}, [3, 4, 5]),
    "min-p of one keeps the likeliest": ([1, 5, 5], {"min_p": 1.0}, [5, 5]),
    # Mean 2.5, deviation 1.708 over the six.
    "top-n-sigma counts deviations": (LADDER, {"top_n_sigma": 1.0}, [4, 5]),
    "top-n-sigma of zero is off": (LADDER, {"top_n_sigma": 0.0}, LADDER),
    "top-n-sigma leaves removed tokens out": ([-INF, 0, 10], {"top_n_sigma": 1.9}, [10]),
    "top-n-sigma of equal logits": ([7, 7, 7], {"top_n_sigma": 0.1}, [7, 7, 7]),
    "p-less keeps all of equal logits": ([3] * 7, {"p_less": True}, [3] * 7),
    # Tempered: the same ratios as ln 4, ln 2, 0 at 1, so 4/7, 2/7, 1/7 and a limit of 3/7.
    "p-less sees the tempered distribution": (
        [np.log(16), np.log(4), 0],
        {"p_less": True, "temperature": 2.0},
        [np.log(16)],
    ),
    "p-less at a high temperature keeps more": (
        [2, 1, -5],
        {"p_less": True, "temperature": 10.0},
        [1, 2],
    ),
    # Chances 0.6, 0.2, 0.2 and an entropy of 0.95: 0.6 has a surprise of 0.51, 0.2 one of 1.61.
    "typical-p keeps what surprises as expected": (
        [np.log(6), np.log(2), np.log(2)],
        {"typical_p": 0.5},
        [np.log(6)],
    ),
    "typical-p may drop the likeliest": (
        [np.log(10), *[np.log(2.5)] * 4, *[0.0] * 4],
        {"typical_p": 0.4},
        [np.log(2.5)] * 4,
    ),
    "typical-p keeps one more at just its mass": ([0, 0, 0, 0], {"typical_p": 0.5}, [0, 0, 0]),
    "a token at minus infinity is never drawn": ([-INF, 1, -INF, 2], {}, [1, 2]),
    "one survivor": ([-INF, -INF, 4, -INF], {"top_p": 0.9, "typical_p": 0.9, "min_p": 0.1}, [4]),
    "all equal": ([2] * 5, {"top_p": 0.99, "min_p": 0.5, "top_n_sigma": 1.0}, [2] * 5),
    "large logits": ([1e4, 1e4 + 1, -1e4], {"min_p": 0.3, "top_p": 0.99}, [1e4, 1e4 + 1]),
    "very large logits": ([1e30, -1e30], {"top_p": 0.9, "min_p": 0.1}, [1e30]),
    "a vocabulary of one": ([3], {"top_k": 40, "top_p": 0.5, "typical_p": 0.5}, [3]),
}


@pytest.mark.parametrize("name", CASES)
def test_each_rule_leaves_what_its_formula_says(name):
    logits, values, kept = CASES[name]
    asked = rule(**values)
    expected = reading.truncate(np.float32(logits), asked, excludes=False).kept
    np.testing.assert_allclose(expected, kept, rtol=1e-6, err_msg="the reading itself")
    np.testing.assert_allclose(reachable_logits(logits, asked), kept, rtol=1e-6)


def test_filters_see_the_distribution_before_temperature():
    logits = [np.log(6), np.log(3), 0.0]
    for temperature in (0.01, 1.0, 50.0):
        cold = draw(logits, [rule(top_p=0.55, temperature=temperature)] * 64, range(64))
        assert set(cold.tolist()) == {0}


def test_temperature_zero_takes_the_first_of_the_largest_whatever_else_is_asked():
    asked = rule(temperature=0.0, top_k=3, top_n_sigma=0.1, p_less=True, xtc_probability=1.0)
    assert draw([1.0, 9.0, 9.0, 2.0], [asked] * 20, range(20)).tolist() == [1] * 20


def test_a_tiny_temperature_is_greedy_too():
    assert set(draw(LADDER, [rule(temperature=1e-7)] * 50, range(50)).tolist()) == {5}


# ----------------------------------------------------------------------------- XTC

# Chances 0.4, 0.3, 0.2, 0.1.
SHARES = np.log([4.0, 3.0, 2.0, 1.0])
ALWAYS = {"xtc_probability": 1.0, "xtc_threshold": 0.15}


@pytest.mark.parametrize(
    ("values", "keep_ids", "left"),
    [
        (ALWAYS, (), [2, 3]),
        ({**ALWAYS, "xtc_threshold": 0.25}, (), [1, 2, 3]),
        # One alone above the threshold: nothing to choose from.
        ({**ALWAYS, "xtc_threshold": 0.35}, (), [0, 1, 2, 3]),
        ({**ALWAYS, "xtc_threshold": 0.5}, (), [0, 1, 2, 3]),
        ({**ALWAYS, "xtc_threshold": 0.0}, (), [3]),
        ({**ALWAYS, "xtc_probability": 0.0}, (), [0, 1, 2, 3]),
        # Line ends and ends of sequence stay.
        (ALWAYS, (0,), [0, 2, 3]),
        (ALWAYS, (0, 1, 3), [0, 1, 2, 3]),
        # It comes after the others: without the last, 3/9 is the third of three above 0.15.
        ({**ALWAYS, "top_k": 3}, (), [2]),
        ({**ALWAYS, "xtc_threshold": 0.25, "top_k": 2}, (), [1]),
    ],
)
def test_xtc_leaves_the_least_likely_above_its_threshold(values, keep_ids, left):
    assert reachable(SHARES, rule(**values), keep_ids) == left


def test_xtc_spares_what_only_reaches_its_threshold():
    """Four in a row have 0.25 each, exactly."""
    assert reachable([0.0] * 4, rule(xtc_probability=1.0, xtc_threshold=0.25)) == [0, 1, 2, 3]


def test_xtc_looks_at_what_typical_p_left():
    """Typical-p may have removed the likeliest, so the first above the threshold is not first."""
    logits = np.log([10.0, 3.0, 2.4, 2.2, 1.0, 1.0, 1.0])
    typical = rule(typical_p=0.3)
    assert reachable(logits, typical) == [1, 2, 3]
    assert reachable(logits, rule(typical_p=0.3, **ALWAYS)) == [3]


def test_top_p_of_zero_after_typical_p_keeps_one_of_what_was_left():
    logits = np.log([10.0, 3.0, 2.4, 2.2, 1.0, 1.0, 1.0])
    assert reachable(logits, rule(typical_p=0.3, top_p=0.0)) == [1]


def test_xtc_strikes_as_often_as_its_probability():
    asked = rule(xtc_probability=0.3, xtc_threshold=0.15)
    rows = 4000
    tokens = draw(SHARES, [asked] * rows, range(rows))
    struck = 1 - np.isin(tokens, [0, 1]).mean() / 0.7
    assert struck == pytest.approx(0.3, abs=0.04)


def test_xtc_and_the_token_are_drawn_independently():
    asked = rule(xtc_probability=0.5, xtc_threshold=0.15)
    rows = 20_000
    tokens = draw(SHARES, [asked] * rows, range(rows))
    counts = np.bincount(tokens, minlength=4)
    expected = rows * (0.5 * np.array([0.4, 0.3, 0.2, 0.1]) + 0.5 * np.array([0, 0, 2 / 3, 1 / 3]))
    assert_fits(counts, expected)


# ------------------------------------------------------------------ rules together

logit = st.one_of(
    st.integers(-24, 24).map(lambda n: n / 4),
    st.floats(-12, 12, width=32),
    st.just(-INF),
)
rows_of_logits = st.lists(logit, min_size=1, max_size=24).filter(lambda row: max(row) > -INF)
rules = st.builds(
    SamplingRule,
    temperature=st.sampled_from([0.3, 0.8, 1.0, 1.7]),
    top_k=st.sampled_from([0, 0, 1, 2, 5, 17, 100]),
    top_p=st.sampled_from([1.0, 1.0, 0.95, 0.7, 0.31, 0.0]),
    min_p=st.sampled_from([0.0, 0.0, 0.05, 0.4]),
    p_less=st.booleans(),
    typical_p=st.sampled_from([1.0, 1.0, 0.9, 0.4]),
    top_n_sigma=st.sampled_from([-1.0, -1.0, 0.5, 1.3, 3.0]),
    xtc_probability=st.sampled_from([0.0, 1.0]),
    xtc_threshold=st.sampled_from([0.0, 0.07, 0.21, 0.5, 0.6]),
)


@settings(max_examples=200)
@given(rows_of_logits, rules)
def test_rules_together_leave_what_their_formulas_leave_one_after_the_other(logits, asked):
    excludes = asked.xtc_probability > 0 and asked.xtc_threshold <= 0.5
    expected = reading.truncate(logits, asked, excludes=excludes)
    assume(expected.margin > NEAR)
    # Tokens that are as good as equal may stand for each other.
    np.testing.assert_allclose(reachable_logits(logits, asked), expected.kept, rtol=0, atol=NEAR)


@settings(max_examples=100)
@given(rows_of_logits, rules)
def test_what_remains_of_a_row_is_what_it_draws_from(logits, asked):
    excludes = asked.xtc_probability > 0 and asked.xtc_threshold <= 0.5
    expected = reading.truncate(logits, asked, excludes=excludes)
    assume(expected.margin > NEAR)
    row = mx.array(np.array([logits], dtype=np.float32))
    # XTC strikes at a probability of one, whatever is drawn for it.
    asked = dataclasses.replace(asked, xtc_probability=float(excludes))
    left = np.array(remaining(asked, 7, 3, row, ()))[0]
    kept = np.sort(left[np.isfinite(left)]) * max(asked.temperature, 1e-6)
    np.testing.assert_allclose(kept, expected.kept, rtol=1e-5, atol=NEAR)


def test_of_a_greedy_row_the_likeliest_token_remains():
    row = mx.array([[1.0, 9.0, 9.0, 2.0]])
    left = remaining(rule(temperature=0.0, top_k=3), 7, 3, row, ())
    assert left.tolist() == [[-INF, 0.0, -INF, -INF]]


def test_a_top_k_beyond_the_candidates_of_a_partition_is_kept_exactly():
    count = MAX_CANDIDATES + 26
    logits = np.linspace(9, 0, 1500)
    last = np.flatnonzero(uniforms(np.arange(400_000), [0]) > 0.9995)[:150].tolist()
    tokens = draw(logits, [rule(top_k=count, temperature=FLAT)] * len(last), last)
    assert tokens.max() == count - 1
    assert tokens.min() >= count - 3


# --------------------------------------------------------------------- frequencies


def assert_fits(counts, expected):
    """Fail when counts fit expectations worse than one time in a million (chi-square)."""
    assert counts[expected == 0].sum() == 0
    few = expected < 5
    counts = np.append(counts[~few], counts[few].sum())
    expected = np.append(expected[~few], expected[few].sum())
    counts, expected = counts[expected > 0], expected[expected > 0]
    freedom = max(1, len(counts) - 1)
    # Wilson and Hilferty's cube root turns chi-square into a normal deviate.
    spread = 2 / (9 * freedom)
    value = ((counts - expected) ** 2 / expected).sum()
    assert ((value / freedom) ** (1 / 3) - 1 + spread) / np.sqrt(spread) < 4.75


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"temperature": 0.6},
        {"temperature": 1.9, "top_k": 9},
        {"top_p": 0.8},
        {"min_p": 0.1, "temperature": 1.4},
        {"typical_p": 0.7},
        {"top_n_sigma": 1.2, "temperature": 3.0},
        {"p_less": True, "temperature": 1.6},
        {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8},
        {"xtc_probability": 1.0, "xtc_threshold": 0.08},
    ],
    ids=str,
)
def test_drawn_frequencies_follow_the_truncated_tempered_distribution(values):
    logits = np.float32(np.random.default_rng(5).normal(0, 1.5, 37))
    asked, rows = rule(**values), 12_000
    left = reading.truncate(logits, asked, excludes=asked.xtc_probability > 0)
    assert left.margin > NEAR
    half = rows // 2
    # Half of the draws differ by seed, half by position.
    tokens = draw(logits, [asked] * rows, [*range(half), *[7] * half], [*[0] * half, *range(half)])
    expected = rows * left.chances(asked.temperature)
    assert_fits(np.bincount(tokens, minlength=len(logits)), expected)


# ---------------------------------------------------------------------- neighbours

EIGHT = [
    rule(temperature=0.0),
    rule(),
    rule(top_k=7),
    rule(top_k=40, top_p=0.9, min_p=0.02, temperature=0.7),
    rule(top_p=0.6),
    rule(typical_p=0.5, temperature=1.5),
    rule(top_n_sigma=1.0, p_less=True, temperature=1.2),
    rule(top_k=90, xtc_probability=0.6, xtc_threshold=0.01),
]


def sample_all(logits, asked, steps, keep_ids=(3,)):
    """Return [steps, rows] tokens; row r is seeded with r."""
    sampler = Sampler(asked, list(range(len(asked))), logits.shape[-1], keep_ids)
    return np.stack([np.array(sampler.sample(logits, [p] * len(asked))) for p in range(steps)])


@pytest.mark.parametrize("size", [1000, 4099])
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
def test_a_row_draws_the_same_tokens_alone_and_among_seven_others(size, dtype):
    # In 16 bits many tokens are exactly as likely as each other: their order must not depend on
    # how many candidates the neighbours want.
    rng = np.random.default_rng(size)
    logits = mx.array(rng.normal(0, 2, (8, size)).astype(np.float32)).astype(dtype)
    together = sample_all(logits, EIGHT, 40)
    for row, asked in enumerate(EIGHT):
        alone = Sampler([asked], [row], size, (3,))
        tokens = [int(alone.sample(logits[row : row + 1], [p])[0]) for p in range(40)]
        assert tokens == together[:, row].tolist(), asked


def test_ties_at_the_edge_of_top_k_are_cut_alike_alone_and_among_others():
    logits = mx.array(np.random.default_rng(1).integers(0, 6, (2, 3001)).astype(np.float32))
    flat = [rule(top_k=5, temperature=FLAT), rule(top_k=64, temperature=FLAT)]
    together = sample_all(logits, flat, 200)
    alone = sample_all(logits[:1], flat[:1], 200)
    assert together[:, 0].tolist() == alone[:, 0].tolist()


def test_a_rule_of_a_neighbour_is_no_rule_of_a_row():
    """Equal logits have no deviation, and off is infinitely many of them."""
    equal = [5.0] * 6
    for on in ({"top_n_sigma": 1.0}, {"p_less": True}, {"min_p": 0.9}, {"typical_p": 0.9}):
        pair = [rule(**on), rule()] * 100
        tokens = draw(equal, pair, range(200))
        assert set(tokens[1::2].tolist()) == set(range(6))


def test_rows_come_back_in_their_own_order():
    logits = mx.array(np.eye(8, 50, dtype=np.float32) * 100)
    for shift in range(8):
        asked = EIGHT[shift:] + EIGHT[:shift]
        assert sample_all(logits, asked, 1, ())[0].tolist() == list(range(8))


def test_a_seed_is_read_as_64_bits():
    seeds = [0, 2**64 - 1, -1, 2**63]
    tokens = draw(np.zeros(5000), [PLAIN] * 4, seeds)
    assert tokens[1] == tokens[2]
    assert len(set(tokens.tolist())) == 3


def test_a_removed_token_is_not_drawn_by_the_smallest_draw_either():
    seed = 38_334_403
    assert uniforms([seed], [0]) == [0.0]
    assert draw([-INF, -INF, 1.0, 2.0], [rule()], [seed]).tolist() == [2]
    assert draw([-INF, 1.0, 2.0], [rule(top_k=2)], [seed]).tolist() == [2]


@pytest.mark.parametrize(
    ("chances", "off_by", "number", "expected"),
    [
        # The sum falls back by a rounding error, or rises without a probability.
        ([0.5, 0.0, 0.5], [0, 1, 0], 0.5, 2),
        ([0.0, 0.5, 0.5], [1, 0, 0], 0.0, 1),
        ([0.5, 0.5, 0.0], [0, -1, 0], 1 - 2.0**-24, 1),
        ([0.5, 0.5, 0.0, 0.0], [0, -2, -1, 1], 1 - 2.0**-24, 1),
        ([0.25, 0.0, 0.75], [0, -1, 0], 0.25, 2),
    ],
)
def test_a_sum_in_parallel_picks_no_token_without_a_probability(chances, off_by, number, expected):
    """Of equal sums, those of a parallel scan differ in the last bit."""
    reached = np.cumsum(np.array(chances, dtype=np.float32)) + np.array(off_by) * 2.0**-24
    rows = [mx.array(np.array([row], dtype=np.float32)) for row in (chances, reached, [number])]
    assert pick(*rows).tolist() == [expected]


# --------------------------------------------------------------------- the uniform


def uniforms(seeds, positions, purpose=DRAW_TOKEN):
    seeds, positions = np.broadcast_arrays(np.uint64(seeds), np.uint64(positions))
    return uniform(seeds, positions, purpose).astype(np.float64)


N = 1 << 15
COUNT = np.arange(N, dtype=np.uint64)
STREAMS = {
    "positions": uniforms(np.full(1, 42), COUNT),
    "positions of seed 0": uniforms(np.full(1, 0), COUNT),
    "seeds": uniforms(COUNT, np.full(1, 0)),
    "far seeds": uniforms(COUNT << np.uint64(40), np.full(1, 9)),
    "XTC by position": uniforms(np.full(1, 42), COUNT, DRAW_XTC),
    "both": uniforms(COUNT, COUNT),
}


@pytest.mark.parametrize("name", STREAMS)
def test_draws_are_spread_evenly_and_do_not_follow_each_other(name):
    values = STREAMS[name]
    assert values.min() >= 0
    assert values.max() < 1
    cells = np.floor(values * 256).astype(int)
    assert_fits(np.bincount(cells, minlength=256), np.full(256, N / 256))
    low = np.floor(values * 2**24).astype(int) % 256
    assert_fits(np.bincount(low, minlength=256), np.full(256, N / 256))
    for lag in (1, 2, 3, 4, 8, 64):
        pairs = np.floor(values[:-lag] * 16) * 16 + np.floor(values[lag:] * 16)
        count = len(pairs)
        assert_fits(np.bincount(pairs.astype(int), minlength=256), np.full(256, count / 256))


def test_streams_do_not_follow_one_another():
    names = list(STREAMS)
    bound = 5 / np.sqrt(N)
    table = np.abs(np.corrcoef([STREAMS[name] for name in names]))
    # "both" shares one draw with "seeds" and none with the others; XTC's differ from the token's.
    assert (table - np.eye(len(names))).max() < bound


def test_no_draw_is_used_twice():
    """Neither by the next position nor by the next seed, whatever it is drawn for."""
    draws = [
        uniforms(np.full(1, seed), COUNT[:4000], purpose)
        for seed in (41, 42, 43)
        for purpose in (DRAW_TOKEN, DRAW_XTC)
    ]
    for index, one in enumerate(draws):
        for other in draws[:index]:
            for lag in range(5):
                assert np.mean(one[lag:] == other[: len(other) - lag]) < 0.01
                assert np.mean(other[lag:] == one[: len(one) - lag]) < 0.01


def test_the_same_draw_is_the_same_number_in_any_batch():
    seeds, positions = COUNT[:100] * np.uint64(77), COUNT[:100]
    together = uniform(seeds, positions, DRAW_TOKEN)
    assert together.dtype == np.float32
    apart = [uniform(seeds[i : i + 1], positions[i : i + 1], DRAW_TOKEN)[0] for i in range(100)]
    assert together.tolist() == apart


# ------------------------------------------------------------------ top_candidates


@st.composite
def tables(draw):
    size = draw(st.one_of(st.integers(1, 70), st.integers(1, 2600)))
    count = draw(st.integers(1, min(size, 90)))
    rows = draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(["normal", "ties", "equal", "mostly removed", "all removed"]))
    table = rng.normal(0, 3, (rows, size))
    if kind == "ties":
        table = np.round(table)
    elif kind == "equal":
        table[:] = 1.5
    elif kind == "mostly removed":
        table[:, rng.random(size) < 0.99] = -INF
    elif kind == "all removed":
        table[:] = -INF
    return table.astype(np.float32), count


@settings(max_examples=200)
@given(tables())
def test_top_candidates_are_the_largest_and_each_is_named_once(case):
    table, count = case
    values, columns = map(np.array, top_candidates(mx.array(table), count))
    assert values.shape == columns.shape == (len(table), count)
    np.testing.assert_array_equal(np.sort(values), np.sort(table)[:, -count:])
    for row in range(len(table)):
        assert len(set(columns[row].tolist())) == count
        np.testing.assert_array_equal(table[row][columns[row]], values[row])
