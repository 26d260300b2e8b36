"""What is left of a distribution: the truncation rules, for a whole batch at once.

Owns the order of the rules, which is llama-server's: logit bias, penalties, DRY, top-n-sigma,
top-k, p-less, typical-p, top-p, min-p, XTC, and temperature last: the filters see the untempered
distribution, only p-less the tempered one. Runs on the engine thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

# More candidates than this and a full sort is no dearer than a partition.
MAX_CANDIDATES = 1024
ABSENT = -mx.inf


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


class Filters:
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
        return mx.where(mx.isinf(self._sigma) | (logits >= limit), logits, ABSENT)

    def apply(
        self, logits: mx.array, columns: mx.array | None, xtc: mx.array | None, *, ordered: bool
    ) -> mx.array:
        """Return the logits with every removed token at minus infinity."""
        if ordered and self._cuts_k:
            rank = mx.arange(logits.shape[-1])[None]
            logits = mx.where(rank < self._top_k, logits, ABSENT)
        if self._uses_p_less:
            logits = mx.where(self._p_less & ~_p_less(logits, self.temperature), ABSENT, logits)
        if ordered and self._typical_p is not None:
            logits = mx.where(_typical(logits, self._typical_p), logits, ABSENT)
        if ordered and self._top_p is not None:
            logits = mx.where(_nucleus(logits, self._top_p), logits, ABSENT)
        if self._min_p is not None:
            limit = mx.max(logits, axis=-1, keepdims=True) + mx.log(self._min_p)
            logits = mx.where(logits >= limit, logits, ABSENT)
        if columns is not None and xtc is not None:
            logits = mx.where(self._excluded(logits, columns, xtc), ABSENT, logits)
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
