"""Masks: logits in which only the tokens that a request still allows are left.

Owns forced and barred tokens and the masks of llguidance's matchers, which are computed for all
rows in one call. What a request allows next is decided elsewhere and read through `NextTokenRule`.
Runs on the engine thread.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Protocol

import mlx.core as mx
import numpy as np
from llguidance import LLExecutor, LLMatcher
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask_par


class NextTokenRule(Protocol):
    """What one row may sample next."""

    @property
    def forced(self) -> int | None:
        """The only id allowed; nothing else is looked at then."""

    @property
    def matcher(self) -> LLMatcher | None:
        """The grammar the next id must follow."""

    @property
    def alternative(self) -> int | None:
        """An id that is allowed besides those of the grammar."""

    @property
    def barred(self) -> Sequence[int]:
        """Ids that are not allowed."""


def apply(logits: mx.array, rules: Sequence[NextTokenRule | None]) -> mx.array:
    """Return logits in which every row with a rule has only its allowed tokens left.

    Args:
        logits: [rows, vocabulary].
        rules: one per row, None where every token is allowed.
    """
    active = {row: rule for row, rule in enumerate(rules) if rule is not None}
    forced = {row: rule.forced for row, rule in active.items() if rule.forced is not None}
    matchers = {
        row: (rule.matcher, rule.alternative)
        for row, rule in active.items()
        if row not in forced and rule.matcher is not None
    }
    if matchers:
        # The masks are computed on the processor while the device computes the logits.
        mx.async_eval(logits)
        logits = _constrain(logits, matchers)
    for row, rule in active.items():
        if barred := rule.barred:
            logits[row, mx.array(list(barred))] = -mx.inf
    for row, token in forced.items():
        only = mx.where(mx.arange(logits.shape[-1]) == token, 0.0, -mx.inf)
        logits[row] = only.astype(logits.dtype)
    return logits


_executor = functools.lru_cache(maxsize=1)(LLExecutor)


def _constrain(logits: mx.array, matchers: dict[int, tuple[LLMatcher, int | None]]) -> mx.array:
    """Return logits in which some rows have only the tokens of their grammar left.

    Args:
        logits: [rows, vocabulary].
        matchers: by row, each with an id that is allowed as well.
    """
    size = logits.shape[-1]
    bits = allocate_token_bitmask(len(matchers), size)
    pairs = [(matcher, index) for index, (matcher, _) in enumerate(matchers.values())]
    fill_next_token_bitmask_par(_executor(), pairs, bits)
    allowed = np.unpackbits(bits.view(np.uint8), axis=-1, bitorder="little", count=size)
    for index, (_, alternative) in enumerate(matchers.values()):
        if alternative is not None:
            allowed[index, alternative] = 1
    mask = mx.array(allowed.astype(np.bool_))
    if len(matchers) == logits.shape[0]:
        return mx.where(mask, logits, -mx.inf)
    rows = mx.array(list(matchers))
    logits[rows] = mx.where(mask, logits[rows], -mx.inf)
    return logits
