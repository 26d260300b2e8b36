"""From logits to tokens, for a whole batch at once.

Owns the draw; the tokens left to draw from are filter.py's. Greedy rows cost an argmax;
rows with a top-k are cut to k columns first and every later filter works on those; a full sort is
done only for rows that need one. Runs on the engine thread.

Randomness is one uniform number from (seed, position, purpose) per draw, turned into a token by
the inverse of the cumulative distribution, so the same seed gives the same text in any batch
(`mx.random.categorical` with per-row keys is not equal to single calls).
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from workers.text.sampling.filter import ABSENT, Filters, SamplingRule

DRAW_TOKEN, DRAW_XTC = 0, 1
_BLOCK = 32


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
    mixed: np.ndarray
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed = value ^ (value >> np.uint64(31))
    return mixed


def top_candidates(logits: mx.array, count: int) -> tuple[mx.array, mx.array]:
    """Return the `count` largest logits of each row and their token ids, in order of the ids.

    The largest can only lie in the `count` blocks whose maxima are largest, so only those are
    partitioned: 5 ms instead of 25 for 40 of 49,152 in 32 rows on the CPU backend.

    Of equal logits the higher id counts as larger, here and wherever this module sorts: models
    in 16 bits give many, and which of them are drawn must not depend on `count`, which the
    other rows of the batch decide. It follows from MLX's sorts and partitions being stable; chosen
    columns are put back in order of the ids for the next sort.

    Shape: [rows, count] each.
    """
    rows, size = logits.shape
    blocks = -(-size // _BLOCK)
    if blocks <= 2 * count:
        columns = _largest(logits, count)
        return mx.take_along_axis(logits, columns, axis=-1), columns
    padding = blocks * _BLOCK - size
    if padding:
        # In front, so that it loses against removed tokens: it must never be chosen.
        logits = mx.pad(logits, [(0, 0), (padding, 0)], constant_values=ABSENT)
    blocked = logits.reshape(rows, blocks, _BLOCK)
    chosen = _largest(mx.max(blocked, axis=-1), count)
    inside = mx.take_along_axis(blocked, chosen[..., None], axis=1).reshape(rows, count * _BLOCK)
    index = _largest(inside, count)
    columns = mx.take_along_axis(chosen, index // _BLOCK, axis=-1) * _BLOCK + index % _BLOCK
    return mx.take_along_axis(inside, index, axis=-1), columns - padding


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


def remaining(
    rule: SamplingRule, seed: int, position: int, logits: mx.array, keep_ids: Sequence[int]
) -> mx.array:
    """Return one row's logits as they are drawn from: tempered, removed tokens at minus infinity.

    Shape: [1, vocabulary], of logits of that shape.
    """
    group = _Group(rule.group(logits.shape[-1]), [0], [rule], [seed], keep_ids)
    if rule.greedy:
        best = mx.argmax(logits, axis=-1, keepdims=True)
        return mx.where(mx.arange(logits.shape[-1]) == best, 0.0, ABSENT)
    narrowed, columns = group.narrow(logits, np.array([position], dtype=np.uint64))
    if columns is None:
        return narrowed
    return mx.put_along_axis(mx.full(logits.shape, ABSENT), columns, narrowed, axis=-1)


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
        self._filters = Filters(rules, keep_ids)

    def sample(self, logits: mx.array, positions: Sequence[int]) -> mx.array:
        if self._greedy:
            return mx.argmax(logits, axis=-1).astype(mx.int32)
        where = np.array(positions, dtype=np.uint64)
        logits, columns = self.narrow(logits, where)
        draw = mx.array(uniform(self._seeds, where, DRAW_TOKEN))[:, None]
        picked = _invert(logits, draw)
        if columns is None:
            return picked
        return mx.take_along_axis(columns, picked[:, None], axis=-1)[:, 0].astype(mx.int32)

    def narrow(self, logits: mx.array, where: np.ndarray) -> tuple[mx.array, mx.array | None]:
        """Return what tokens are drawn from, and their ids unless they are in order of them.

        Args:
            logits: [rows, vocabulary].
            where: uint64 [rows], the positions.

        Shape: [rows, candidates] each; the logits of removed tokens are minus infinity.
        """
        logits = self._filters.cut_sigma(logits.astype(mx.float32))
        logits, columns = self._arrange(logits)
        xtc = None
        if self._filters.uses_xtc:
            xtc = mx.array(uniform(self._seeds, where, DRAW_XTC))[:, None]
        logits = self._filters.apply(logits, columns, xtc, ordered=columns is not None)
        return logits / self._filters.temperature, columns

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


def _invert(logits: mx.array, draw: mx.array) -> mx.array:
    """Return the column at which the cumulative distribution passes `draw`.

    Shape: int32 [rows] of logits [rows, columns] and draws [rows, 1].
    """
    chances = mx.softmax(logits, axis=-1, precise=True)
    return pick(chances, mx.cumsum(chances, axis=-1), draw)


def pick(chances: mx.array, reached: mx.array, draw: mx.array) -> mx.array:
    """Return the first column whose cumulative probability passes `draw`; its own is above 0.

    Args:
        chances: [rows, columns].
        reached: their cumulative sums. Metal adds in parallel, so they may fall by a rounding
            error from one column to the next.
        draw: [rows, 1], at least 0 and below 1.

    Shape: int32 [rows].
    """
    reached = mx.where(chances > 0, reached, 0)
    # Scaled by the total as summed, so that rounding can't leave the draw past the end.
    target = draw * mx.max(reached, axis=-1, keepdims=True)
    return mx.argmax(reached > target, axis=-1).astype(mx.int32)
