"""The reference's rules read plainly: float64, one row, sorted, the whole text at once.

The oracle of the sampling and stop tests. Shares no code with what it judges. A sampling reading
says how close its nearest decision was, because float32 may decide a near-tie the other way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from workers.text.sampling.filter import SamplingRule


@dataclass
class Reading:
    """What the rules leave of one row.

    Attributes:
        logits: float64 [vocabulary]; minus infinity where a token was removed.
        margin: how far the nearest decision was from falling the other way.
    """

    logits: np.ndarray
    margin: float = math.inf

    @property
    def kept(self) -> np.ndarray:
        """The surviving logits, sorted: equal ones are interchangeable."""
        return np.sort(self.logits[np.isfinite(self.logits)])

    def chances(self, temperature: float = 1.0) -> np.ndarray:
        """Return the probability of each token."""
        return softmax(self.logits / temperature)

    def keep(self, mask: np.ndarray, distance: np.ndarray) -> None:
        """Remove what the mask leaves out; `distance` is each token's own from the decision."""
        alive = np.isfinite(self.logits)
        if alive.any():
            self.margin = min(self.margin, float(np.abs(distance[alive]).min()))
        self.logits = np.where(mask, self.logits, -np.inf)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return the probabilities of one row."""
    raised = np.exp(logits - logits.max())
    return raised / raised.sum()


def truncate(
    logits: Iterable[float], rule: SamplingRule, keep_ids: Iterable[int] = (), *, excludes: bool
) -> Reading:
    """Apply a rule's filters, in llama-server's order.

    Args:
        excludes: whether XTC's draw came out below its probability.
    """
    reading = Reading(np.array(list(logits), dtype=np.float64))
    _cut_sigma(reading, rule.top_n_sigma)
    _cut_rank(reading, rule.top_k)
    if rule.p_less:
        _cut_less(reading, rule.temperature)
    if rule.typical_p < 1:
        _cut_typical(reading, rule.typical_p)
    if rule.top_p < 1:
        _cut_nucleus(reading, rule.top_p)
    if rule.min_p > 0:
        limit = reading.logits.max() + math.log(rule.min_p)
        reading.keep(reading.logits >= limit, reading.logits - limit)
    if excludes:
        _exclude(reading, rule.xtc_threshold, keep_ids)
    return reading


def _cut_sigma(reading: Reading, count: float) -> None:
    if count > 0:
        logits = reading.logits
        finite = logits[np.isfinite(logits)]
        limit = finite.max() - count * finite.std()
        # Where all are equal there is nothing to decide.
        distance = logits - limit if finite.std() > 0 else np.full(len(logits), np.inf)
        reading.keep(logits >= limit, distance)


def _cut_rank(reading: Reading, count: int) -> None:
    if 0 < count < len(reading.logits):
        order = np.argsort(-reading.logits, kind="stable")
        reading.logits[order[count:]] = -np.inf


def _cut_less(reading: Reading, temperature: float) -> None:
    chances = reading.chances(temperature)
    limit = (chances**2).sum()
    highest = reading.logits == reading.logits.max()
    distance = np.where(highest, np.inf, chances - limit)
    reading.keep((chances >= limit) | highest, distance)


def _cut_typical(reading: Reading, mass: float) -> None:
    alive = np.flatnonzero(np.isfinite(reading.logits))
    chances = reading.chances()[alive]
    surprise = -np.log(chances)
    strangeness = np.abs(surprise - (chances * surprise).sum())
    order = np.argsort(strangeness, kind="stable")
    before = np.cumsum(chances[order]) - chances[order]
    kept = order[before <= mass]
    mask, distance = np.zeros(len(reading.logits), bool), np.full(len(reading.logits), np.inf)
    mask[alive[kept]] = True
    distance[alive[order[1:]]] = before[1:] - mass
    if len(kept) < len(order):
        inside, outside = kept[-1], order[len(kept)]
        # Two tokens as strange as each other may change places, unless they are equally likely.
        if not np.isclose(chances[inside], chances[outside], rtol=1e-12):
            gap = strangeness[outside] - strangeness[inside]
            distance[alive[outside]] = min(abs(distance[alive[outside]]), gap)
    reading.keep(mask, distance)


def _cut_nucleus(reading: Reading, mass: float) -> None:
    order = np.argsort(-reading.logits, kind="stable")
    chances = reading.chances()[order]
    before = np.cumsum(chances) - chances
    mask, distance = np.zeros(len(order), bool), np.full(len(order), np.inf)
    mask[order] = before < mass
    mask[order[0]] = True
    distance[order[1:]] = before[1:] - mass
    reading.keep(mask, distance)


def _exclude(reading: Reading, threshold: float, keep_ids: Iterable[int]) -> None:
    chances = reading.chances()
    above = np.flatnonzero(chances > threshold)
    mask = np.ones(len(chances), bool)
    if len(above) >= 2:
        mask[above] = False
        mask[above[np.argmin(chances[above])]] = True
        mask[list(keep_ids)] = True
    reading.keep(mask, chances - threshold)


def cut_at_stop(text: str, strings: Sequence[str]) -> tuple[str, str | None]:
    """Return what is shown of a whole text and the stop string that ended it.

    The match that begins first wins, and of those the one that ends first.
    """
    ends = [(start, start + len(s), s) for s in strings if (start := text.find(s)) >= 0]
    if not ends:
        return text, None
    start, _, matched = min(ends)
    return text[:start], matched
