"""Rules that look back: logit bias, repetition, frequency and presence penalties, DRY.

Each touches a few hundred columns at most, so a step gathers just those columns of all rows that
need it, changes them and puts them back. Windows cover prompt and completion. Runs on the engine
thread.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import mlx.core as mx
import numpy as np

# exp(88.7) is the largest float32: the exponent is cut there, as in llama.cpp's DRY sampler.
_MAX_LOG = 88.7228391
_MAX_FLOAT32 = float(np.finfo(np.float32).max)
# A repetition is followed back no further than its penalty grows; a base near 1 lets it grow for
# ever, and following thousands of tokens would hold up the whole batch.
_MAX_EXPONENT = 1024


@dataclass(frozen=True)
class PenaltyRule:
    """The look-back parameters of one request.

    Values that turn a rule off: repetition 1, frequency 0, presence 0, dry_multiplier 0,
    window_tokens 0 (all three penalties). `dry_window_tokens` 0 is the whole context.
    """

    bias: Mapping[int, float] = field(default_factory=dict)
    repetition: float = 1.0
    frequency: float = 0.0
    presence: float = 0.0
    window_tokens: int = 64
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_window_tokens: int = 0
    dry_breaker_ids: frozenset[int] = frozenset()

    @property
    def penalises(self) -> bool:
        """Whether one of the three counting penalties is on."""
        changed = self.repetition != 1 or self.frequency != 0 or self.presence != 0
        return changed and self.window_tokens > 0

    @property
    def repeats(self) -> bool:
        """Whether DRY is on."""
        return self.dry_multiplier > 0 and self.dry_base >= 1

    @property
    def active(self) -> bool:
        """Whether anything is on."""
        return bool(self.bias) or self.penalises or self.repeats


def apply(
    logits: mx.array, rules: Sequence[PenaltyRule], contexts: Sequence[Sequence[int]]
) -> mx.array:
    """Return logits with every row's bias and penalties in them.

    Args:
        logits: [rows, vocabulary].
        rules: one per row.
        contexts: prompt and completion ids per row.

    The result is in float32 if anything is changed.
    """
    rows = [row for row, rule in enumerate(rules) if rule.active]
    changes = [_changes(rules[row], contexts[row]) for row in rows]
    width = max((len(change) for change in changes), default=0)
    if width == 0:
        return logits
    columns, bias, scale, drop = _pad(changes, width)
    index = mx.array(rows)
    # 16 bits would round a bias of 0.05 away and make 0.125 of a penalty of 0.1.
    logits = logits.astype(mx.float32)
    chosen = logits[index]
    values = mx.take_along_axis(chosen, columns, axis=-1) + bias
    values = mx.where(values > 0, values / scale, values * scale) - drop
    changed = mx.put_along_axis(chosen, columns, values, axis=-1)
    if len(rows) == logits.shape[0]:
        return changed
    logits[index] = changed
    return logits


_Change = dict[int, list[float]]


def _changes(rule: PenaltyRule, context: Sequence[int]) -> _Change:
    """Return (bias, scale, drop) per token id of one row."""
    changes: _Change = {token: [value, 1.0, 0.0] for token, value in rule.bias.items()}
    if rule.penalises:
        for token, count in Counter(context[-rule.window_tokens :]).items():
            change = changes.setdefault(token, [0.0, 1.0, 0.0])
            change[1] = rule.repetition
            change[2] += rule.frequency * count + rule.presence
    if rule.repeats:
        for token, penalty in dry_penalties(rule, context).items():
            changes.setdefault(token, [0.0, 1.0, 0.0])[2] += penalty
    return changes


def _pad(changes: Sequence[_Change], width: int) -> tuple[mx.array, ...]:
    """Return the columns [rows, width] of ids, biases, scales and drops.

    A short row repeats its first entry: writing the same value twice is harmless. A row with
    nothing to change writes token 0 back as it was.
    """
    ids = np.zeros((len(changes), width), dtype=np.int32)
    values = np.zeros((3, len(changes), width), dtype=np.float32)
    values[1] = 1.0
    for row, change in enumerate(changes):
        if not change:
            continue
        keys = list(change)
        numbers = np.array([change[key] for key in keys], dtype=np.float32).T
        ids[row], values[:, row] = keys[0], numbers[:, :1]
        ids[row, : len(keys)], values[:, row, : len(keys)] = keys, numbers
    return mx.array(ids), mx.array(values[0]), mx.array(values[1]), mx.array(values[2])


def dry_penalties(rule: PenaltyRule, context: Sequence[int]) -> dict[int, float]:
    """Return what DRY takes from each token that would prolong a repetition.

    For each earlier occurrence of the context's last token, the match is the longest tail of the
    context that also ends there; a breaker ends it. From a match length of `dry_allowed_length`
    on, the token that followed then loses multiplier · base^(length - allowed length), the
    largest of all its matches.

    Source: llama.cpp, llama_sampler_dry_apply (match length ≥ allowed length).
    """
    window = context[-rule.dry_window_tokens :] if rule.dry_window_tokens > 0 else context
    tokens = np.asarray(window, dtype=np.int64)
    if len(tokens) < 2 or int(tokens[-1]) in rule.dry_breaker_ids:
        return {}
    ends = np.nonzero(tokens[:-1] == tokens[-1])[0]
    most = rule.dry_allowed_length + _max_exponent(rule)
    lengths = _match_lengths(tokens, ends, rule.dry_breaker_ids, most)
    longest: dict[int, int] = {}
    for end, length in zip(ends.tolist(), lengths.tolist(), strict=True):
        follower = int(tokens[end + 1])
        if length >= rule.dry_allowed_length and follower not in rule.dry_breaker_ids:
            longest[follower] = max(length, longest.get(follower, 0))
    return {token: _dry_penalty(rule, length) for token, length in longest.items()}


def _match_lengths(
    tokens: np.ndarray, ends: np.ndarray, breakers: frozenset[int], most: int
) -> np.ndarray:
    """Return, per end, how many tokens up to it equal the tail of the context, up to `most`."""
    lengths = np.ones(len(ends), dtype=np.int64)
    alive = np.arange(len(ends))
    for back in range(1, min(len(tokens), most)):
        wanted = int(tokens[-1 - back])
        indices = ends[alive] - back
        alive = alive[(indices >= 0) & (tokens[indices] == wanted)]
        if wanted in breakers or not len(alive):
            break
        lengths[alive] += 1
    return lengths


def _max_exponent(rule: PenaltyRule) -> int:
    if rule.dry_base <= 1:
        return 0
    return min(_MAX_EXPONENT, int(_MAX_LOG / math.log(rule.dry_base)))


def _dry_penalty(rule: PenaltyRule, length: int) -> float:
    exponent = min(length - rule.dry_allowed_length, _max_exponent(rule))
    # At the cap the product may pass what float32 holds.
    return min(rule.dry_multiplier * rule.dry_base**exponent, _MAX_FLOAT32)
