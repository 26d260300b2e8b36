"""From logits to tokens: the sampling rules, for a whole batch at once.

Owns the order of the rules, which is llama-server's: logit bias, penalties, DRY, top-n-sigma,
top-k, p-less, typical-p, top-p, min-p, XTC, and temperature last: the filters see the untempered
distribution, only p-less the tempered one. Greedy rows cost an argmax; rows with a top-k are cut
to k columns first and every later filter works on those; a full sort is done only for rows that
need one. Runs on the engine thread.

Randomness is one uniform number from (seed, position, purpose) per draw, turned into a token by
the inverse of the cumulative distribution, so the same seed gives the same text whatever else
runs (`mx.random.categorical` with per-row keys is not equal to single calls).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

# More candidates than this and a full sort is no dearer than a partition.
MAX_CANDIDATES = 1024
DRAW_TOKEN, DRAW_XTC = 0, 1
_BLOCK = 32
_ABSENT = -mx.inf


@dataclass(frozen=True)
class SamplingRule:
    """The sampling parameters of one request, with every default filled in.

    A value that turns its rule off: top_k 0, top_p 1, min_p 0, typical_p 1, top_n_sigma -1,
    xtc_probability 0. `temperature` 0 is greedy: only bias and penalties matter then.
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    p_less: bool = False
    typical_p: float = 1.0
    top_n_sigma: float = -1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is taken."""
        return self.temperature <= 0

    @property
    def draws_xtc(self) -> bool:
        """Whether XTC can do anything: above 0.5 two tokens can't both pass the threshold."""
        return self.xtc_probability > 0 and self.xtc_threshold <= 0.5

    def group(self, vocab_tokens: int) -> str:
        """Return how rows of this rule are computed: "greedy", "top", "sorted" or "plain"."""
        if self.greedy:
            return "greedy"
        if 0 < self.top_k <= min(MAX_CANDIDATES, vocab_tokens - 1):
            return "top"
        needs_order = self.top_p < 1 or self.typical_p < 1 or self.draws_xtc
        return "sorted" if needs_order or 0 < self.top_k < vocab_tokens else "plain"


def uniform(seeds: np.ndarray, positions: np.ndarray, purpose: int) -> np.ndarray:
    """Return one number in [0, 1) per row from its seed and position.

    Args:
        seeds: uint64 [rows].
        positions: uint64 [rows]; index of the token to be drawn in its completion.
        purpose: `DRAW_TOKEN` or `DRAW_XTC`.

    Source: the finaliser of SplitMix64 (Steele, Lea and Flood, 2014), applied to a counter.
    """
    counter = positions * np.uint64(4) + np.uint64(purpose + 1)
    mixed = _mix(_mix(seeds) + counter * np.uint64(0x9E3779B97F4A7C15))
    # 24 bits are what a float32 below 1 holds exactly.
    return (mixed >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)


def _mix(value: np.ndarray) -> np.ndarray:
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def top_candidates(logits: mx.array, count: int) -> tuple[mx.array, mx.array]:
    """Return the `count` largest logits of each row and their token ids, in order of the ids.

    The largest can only lie in the `count` blocks whose maxima are largest, so only those are
    partitioned: 5 ms instead of 25 for 40 of 49,152 in 32 rows on the CPU backend.

    Of equal logits the higher id counts as larger, here and wherever this module sorts: models
    in 16 bits give many, and which of them are drawn must not depend on `count`, which the
    neighbours in the batch decide. MLX's sorts and partitions are stable, which is what makes it
    so; everything that is chosen is put back in order of the ids for the next one.

    Shape: [rows, count] each.
    """
    rows, size = logits.shape
    blocks = -(-size // _BLOCK)
    if blocks <= 2 * count:
        columns = _largest(logits, count)
        return mx.take_along_axis(logits, columns, axis=-1), columns
    padding = blocks * _BLOCK - size
    if padding:
        # In front, where it loses against removed tokens: it must never be chosen itself.
        logits = mx.pad(logits, [(0, 0), (padding, 0)], constant_values=_ABSENT)
    blocked = logits.reshape(rows, blocks, _BLOCK)
    chosen = _largest(mx.max(blocked, axis=-1), count)
    inside = mx.take_along_axis(blocked, chosen[..., None], axis=1).reshape(rows, count * _BLOCK)
    places = _largest(inside, count)
    columns = mx.take_along_axis(chosen, places // _BLOCK, axis=-1) * _BLOCK + places % _BLOCK
    return mx.take_along_axis(inside, places, axis=-1), columns - padding


def _largest(values: mx.array, count: int) -> mx.array:
    """Return the positions of the `count` largest values of each row, in rising order."""
    first = values.shape[-1] - count
    return mx.sort(mx.argpartition(values, kth=first, axis=-1)[:, first:], axis=-1)


def _falling(values: mx.array) -> mx.array:
    """Return the positions that put each row in falling order; of equals the later goes first."""
    return mx.argsort(values, axis=-1)[:, ::-1]


class Sampler:
    """Samples the next token of every row of a batch.

    Built once per composition of the batch; `sample` then only varies the draws.

    Args:
        rules: one per row, in row order.
        seeds: one per row.
        vocab_tokens: columns of the logits.
        keep_ids: tokens XTC must never remove (newline, end of sequence).
    """

    def __init__(
        self,
        rules: Sequence[SamplingRule],
        seeds: Sequence[int],
        vocab_tokens: int,
        keep_ids: Sequence[int] = (),
    ) -> None:
        groups: dict[str, list[int]] = {}
        for row, rule in enumerate(rules):
            groups.setdefault(rule.group(vocab_tokens), []).append(row)
        self._groups = [
            _Group(name, rows, [rules[row] for row in rows], [seeds[row] for row in rows], keep_ids)
            for name, rows in groups.items()
        ]
        order = [row for group in self._groups for row in group.rows]
        self._back = mx.array(np.argsort(order)) if len(self._groups) > 1 else None

    def sample(self, logits: mx.array, positions: Sequence[int]) -> mx.array:
        """Return the next token of each row, lazily.

        Args:
            logits: [rows, vocabulary], bias and penalties applied.
            positions: per row, how many tokens of its completion are already sampled.

        Shape: int32 [rows].
        """
        if self._back is None:
            return self._groups[0].sample(logits, positions)
        parts = [
            group.sample(logits[group.index], [positions[row] for row in group.rows])
            for group in self._groups
        ]
        return mx.concatenate(parts)[self._back]


class _Group:
    """Rows that are computed the same way; their parameters are columns."""

    def __init__(
        self,
        name: str,
        rows: list[int],
        rules: list[SamplingRule],
        seeds: list[int],
        keep_ids: Sequence[int],
    ) -> None:
        self.rows = rows
        self.index = mx.array(rows)
        self._greedy = name == "greedy"
        self._sorts = name == "sorted"
        self._candidates = max(rule.top_k for rule in rules) if name == "top" else 0
        self._seeds = np.array([seed & 0xFFFFFFFFFFFFFFFF for seed in seeds], dtype=np.uint64)
        self._filters = _Filters(rules, keep_ids)

    def sample(self, logits: mx.array, positions: Sequence[int]) -> mx.array:
        if self._greedy:
            return mx.argmax(logits, axis=-1).astype(mx.int32)
        where = np.array(positions, dtype=np.uint64)
        logits = self._filters.cut_sigma(logits.astype(mx.float32))
        logits, columns = self._arrange(logits)
        xtc = None
        if self._filters.uses_xtc:
            xtc = mx.array(uniform(self._seeds, where, DRAW_XTC))[:, None]
        logits = self._filters.apply(logits, columns, xtc, ordered=columns is not None)
        draw = mx.array(uniform(self._seeds, where, DRAW_TOKEN))[:, None]
        picked = _invert(logits / self._filters.temperature, draw)
        if columns is None:
            return picked
        return mx.take_along_axis(columns, picked[:, None], axis=-1)[:, 0].astype(mx.int32)

    def _arrange(self, logits: mx.array) -> tuple[mx.array, mx.array | None]:
        """Return logits in falling order with their token ids, where the rules need the order."""
        if self._candidates:
            top, columns = top_candidates(logits, self._candidates)
            order = _falling(top)
            columns = mx.take_along_axis(columns, order, axis=-1)
            return mx.take_along_axis(top, order, axis=-1), columns
        if self._sorts:
            columns = _falling(logits)
            return mx.take_along_axis(logits, columns, axis=-1), columns
        return logits, None


class _Filters:
    """The truncation rules of a group of rows, as columns [rows, 1].

    A rule that no row uses costs nothing.
    """

    def __init__(self, rules: list[SamplingRule], keep_ids: Sequence[int]) -> None:
        def column(values: list[float]) -> mx.array:
            return mx.array(values, dtype=mx.float32)[:, None]

        self.temperature = column([max(rule.temperature, 1e-6) for rule in rules])
        self.uses_xtc = any(rule.draws_xtc for rule in rules)
        self._sigma = _when([rule.top_n_sigma for rule in rules], lambda n: n > 0, mx.inf)
        self._top_k = column([rule.top_k if rule.top_k > 0 else 2**24 for rule in rules])
        same_k = len({rule.top_k for rule in rules}) == 1
        self._cuts_k = not same_k or rules[0].top_k > MAX_CANDIDATES
        self._p_less = mx.array([rule.p_less for rule in rules])[:, None]
        self._uses_p_less = any(rule.p_less for rule in rules)
        self._typical_p = _when([rule.typical_p for rule in rules], lambda p: p < 1, 2.0)
        self._top_p = _when([rule.top_p for rule in rules], lambda p: p < 1, 2.0)
        self._min_p = _when([rule.min_p for rule in rules], lambda p: p > 0, 0.0)
        chances = [rule.xtc_probability if rule.draws_xtc else 0.0 for rule in rules]
        self._xtc_probability = column(chances)
        self._xtc_threshold = column([rule.xtc_threshold for rule in rules])
        self._keep_ids = mx.array(list(keep_ids)) if keep_ids else None

    def cut_sigma(self, logits: mx.array) -> mx.array:
        """Keep logits within n standard deviations of the largest, over all finite ones."""
        if self._sigma is None:
            return logits
        finite = mx.isfinite(logits)
        count = mx.sum(finite, axis=-1, keepdims=True)
        mean = mx.sum(mx.where(finite, logits, 0), axis=-1, keepdims=True) / count
        off = mx.where(finite, logits - mean, 0)
        deviation = mx.sqrt(mx.sum(off * off, axis=-1, keepdims=True) / count)
        limit = mx.max(logits, axis=-1, keepdims=True) - self._sigma * deviation
        return mx.where(mx.isinf(self._sigma) | (logits >= limit), logits, _ABSENT)

    def apply(
        self, logits: mx.array, columns: mx.array | None, xtc: mx.array | None, *, ordered: bool
    ) -> mx.array:
        """Return the logits with every removed token at minus infinity."""
        if ordered and self._cuts_k:
            rank = mx.arange(logits.shape[-1])[None]
            logits = mx.where(rank < self._top_k, logits, _ABSENT)
        if self._uses_p_less:
            logits = mx.where(self._p_less & ~_p_less(logits, self.temperature), _ABSENT, logits)
        if ordered and self._typical_p is not None:
            logits = mx.where(_typical(logits, self._typical_p), logits, _ABSENT)
        if ordered and self._top_p is not None:
            logits = mx.where(_nucleus(logits, self._top_p), logits, _ABSENT)
        if self._min_p is not None:
            limit = mx.max(logits, axis=-1, keepdims=True) + mx.log(self._min_p)
            logits = mx.where(logits >= limit, logits, _ABSENT)
        if columns is not None and xtc is not None:
            logits = mx.where(self._excluded(logits, columns, xtc), _ABSENT, logits)
        return logits

    def _excluded(self, logits: mx.array, columns: mx.array, xtc: mx.array) -> mx.array:
        """Mark every token above XTC's threshold but the least likely of them."""
        above = mx.softmax(logits, axis=-1) > self._xtc_threshold
        # Counted, not by rank: typical-p may have removed tokens in front of them.
        counted = mx.cumsum(above.astype(mx.int32), axis=-1)
        removed = above & (counted < counted[:, -1:])
        if self._keep_ids is not None:
            kept = (columns[..., None] == self._keep_ids).any(axis=-1)
            removed = removed & ~kept
        return removed & (xtc < self._xtc_probability)


def _when(values: list[float], active: object, off: float) -> mx.array | None:
    """Return a column with `off` where the rule is off, or None when it is off everywhere."""
    assert callable(active)
    used = [bool(active(value)) for value in values]
    if not any(used):
        return None
    chosen = [value if use else off for value, use in zip(values, used, strict=True)]
    return mx.array(chosen, dtype=mx.float32)[:, None]


def _p_less(logits: mx.array, temperature: mx.array) -> mx.array:
    """Mark tokens whose tempered probability reaches the sum of squares of all of them.

    The sum of squares never exceeds the largest probability, but rounding may: it always stays.
    """
    chances = mx.softmax(logits / temperature, axis=-1)
    limit = mx.sum(chances * chances, axis=-1, keepdims=True)
    return (chances >= limit) | (logits == mx.max(logits, axis=-1, keepdims=True))


def _typical(logits: mx.array, mass: mx.array) -> mx.array:
    """Mark the tokens whose surprise is nearest to the entropy, up to and past `mass`."""
    log_chances = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    chances = mx.exp(log_chances)
    entropy = -mx.sum(mx.where(chances > 0, chances * log_chances, 0), axis=-1, keepdims=True)
    order = mx.argsort(mx.abs(-log_chances - entropy), axis=-1)
    ordered = mx.take_along_axis(chances, order, axis=-1)
    before = mx.cumsum(ordered, axis=-1) - ordered
    kept = before <= mass
    return mx.take_along_axis(kept, mx.argsort(order, axis=-1), axis=-1)


def _nucleus(logits: mx.array, mass: mx.array) -> mx.array:
    """Mark the most likely tokens that together reach `mass`; logits are in falling order.

    The most likely one always stays.
    """
    chances = mx.softmax(logits, axis=-1)
    before = mx.cumsum(chances, axis=-1) - chances
    # Nothing comes before the most likely one; typical-p may have removed some in front of it.
    return (before < mass) | (before <= 0)


def _invert(logits: mx.array, draw: mx.array) -> mx.array:
    """Return the column at which the cumulative distribution passes `draw`.

    Shape: int32 [rows] of logits [rows, columns] and draws [rows, 1].
    """
    chances = mx.softmax(logits, axis=-1, precise=True)
    reached = mx.cumsum(chances, axis=-1)
    # Scaled by the total as summed, so that rounding can't leave the draw past the end; strict,
    # so that a column of no probability is never picked.
    target = draw * reached[:, -1:]
    return mx.argmax(reached > target, axis=-1).astype(mx.int32)
