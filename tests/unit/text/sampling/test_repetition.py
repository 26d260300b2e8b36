"""Loop detection: which tails count, and what looking for them costs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.text.sampling.repetition import LoopRule, default_rule, parse_loop_rule


def is_loop(ids, rule):
    """Return whether the tail is some allowed pattern, `count` times: read literally."""
    if rule.count < 2:
        return False
    for size in range(max(1, min(rule.min_size, rule.max_size)), rule.max_size + 1):
        pattern = ids[-size:]
        if len(pattern) == size and ids[-size * rule.count :] == pattern * rule.count:
            return True
    return False


@pytest.mark.parametrize("size", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("count", [2, 3, 4, 12])
def test_a_pattern_counts_from_its_last_repetition_on(size, count):
    rule = LoopRule(max_size=20, min_size=1, count=count)
    pattern = list(range(size))
    whole = [99, *pattern * count]
    assert [end for end in range(len(whole) + 1) if rule.matches(whole[:end])] == [len(whole)]
    assert not rule.matches([*whole, 98])


@pytest.mark.parametrize(
    ("rule", "looping"),
    [
        (LoopRule(max_size=4, min_size=1, count=3), True),
        (LoopRule(max_size=2, min_size=1, count=3), False),
        (LoopRule(max_size=4, min_size=4, count=3), False),
        (LoopRule(max_size=3, min_size=0, count=3), True),
        (LoopRule(max_size=6, min_size=5, count=2), False),
        (LoopRule(max_size=3, min_size=9, count=3), True),
        (LoopRule(max_size=2, min_size=9, count=3), False),
        (LoopRule(max_size=0, min_size=1, count=3), False),
        (LoopRule(max_size=4, min_size=1, count=1), False),
        (LoopRule(max_size=4, min_size=1, count=0), False),
        (LoopRule(), False),
    ],
)
def test_a_rule_looks_for_patterns_of_its_sizes_only(rule, looping):
    assert rule.matches([0, 7, *[1, 2, 3] * 3]) == looping


@settings(max_examples=400)
@given(
    st.lists(st.integers(0, 2), max_size=40),
    st.builds(LoopRule, st.integers(0, 12), st.integers(0, 5), st.integers(0, 5)),
)
def test_every_tail_is_judged_as_read_literally(ids, rule):
    assert rule.matches(ids) == is_loop(ids, rule)


class CountedIds(list):
    """Ids that count how many of them are read."""

    read = 0

    def __getitem__(self, index):
        self.read += len(range(*index.indices(len(self)))) if isinstance(index, slice) else 1
        return super().__getitem__(index)


@pytest.mark.parametrize("length", [3_000, 300_000])
def test_a_huge_pattern_size_does_not_make_the_scan_long(length):
    ids = CountedIds([*[5] * (length - 400), 6, *[5] * 399])
    assert not LoopRule(max_size=10**9, min_size=200, count=2).matches(ids)
    assert ids.read < 60_000


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", LoopRule()),
        ("off", LoopRule()),
        (" OFF ", LoopRule()),
        ("0", LoopRule()),
        ("false", LoopRule()),
        ("on", LoopRule(20, 1, 4)),
        ("True", LoopRule(20, 1, 4)),
        ("1", LoopRule(20, 1, 4)),
        ("default", LoopRule(20, 1, 4)),
        ("Enabled", LoopRule(20, 1, 4)),
        ("none", LoopRule()),
        ("disabled", LoopRule()),
        ("2, 30,5", LoopRule(30, 2, 5)),
        ("2:30:5", LoopRule(30, 2, 5)),
        ("0,20,4", LoopRule(20, 0, 4)),
    ],
)
def test_a_setting_is_off_on_or_three_numbers(text, rule):
    assert parse_loop_rule(text) == rule


@pytest.mark.parametrize(
    "text", ["maybe", "1,2", "1,2,3,4", "1,20,-4", "a,b,c", "1;20;4", "20,1,4"]
)
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match=r"\S"):
        parse_loop_rule(text)


def test_the_setting_beats_the_family_and_the_family_beats_off():
    assert default_rule("", "llama") == LoopRule()
    assert default_rule("", "gemma4_text") == LoopRule(20, 1, 4)
    assert default_rule("off", "gemma4") == LoopRule()
    assert default_rule("1,8,6", "gemma4") == LoopRule(8, 1, 6)
