"""Memory that a sequence's keys and values take, for every family of model.

Measured on a real cache of the loaded model, not computed from its configuration: a plain cache
grows with every token, a sliding window up to its size, a recurrent state not at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mlx_lm.models.cache import ArraysCache, CacheList

# Plain caches grow by this many tokens at a time (KVCache.step).
GROWTH_TOKENS = 256
# For activations of a prefill chunk, and buffers that MLX keeps for reuse.
_WORKING_SHARE = 0.1


@dataclass(frozen=True)
class Footprint:
    """Cache size of one model by number of tokens.

    Attributes:
        parts: (bytes per token, most tokens kept) of each layer whose cache grows.
        fixed_bytes: of all other layers.
    """

    parts: tuple[tuple[float, float], ...]
    fixed_bytes: int

    @property
    def trims(self) -> bool:
        """Whether a cache can be cut back to any of its tokens, however long it has grown."""
        return not self.fixed_bytes and all(limit == math.inf for _, limit in self.parts)

    def estimate_bytes(self, tokens: int) -> int:
        """Return the bytes a sequence of that many tokens holds."""
        tokens = -(-tokens // GROWTH_TOKENS) * GROWTH_TOKENS
        grown = sum(per_token * min(tokens, limit) for per_token, limit in self.parts)
        return int(grown) + self.fixed_bytes

    def tokens_within(self, budget_bytes: int, most_tokens: int) -> int:
        """Return the largest number of tokens, up to `most_tokens`, that fits a budget."""
        low, high = 0, most_tokens
        while low < high:
            middle = (low + high + 1) // 2
            fits = self.estimate_bytes(middle) <= budget_bytes
            low, high = (middle, high) if fits else (low, middle - 1)
        return low


def plan_budget(memory_bytes: int, weight_bytes: int, cap_bytes: int) -> int:
    """Return the memory for the caches of all running requests.

    Args:
        memory_bytes: the worker's share of the device.
        weight_bytes: of the loaded model.
        cap_bytes: a configured limit, which can only lower the result; 0 for none.
    """
    working = int(memory_bytes * _WORKING_SHARE)
    left = max(0, memory_bytes - weight_bytes - working)
    return min(left, cap_bytes) if cap_bytes else left


def measure(cache: list[Any]) -> Footprint:
    """Return the footprint of a model, given a cache that has been fed some tokens."""
    parts, fixed = [], 0
    for part in _flatten(cache):
        if isinstance(part, ArraysCache):
            fixed += part.nbytes
            continue
        keys = part.keys[0] if isinstance(part.keys, tuple | list) else part.keys
        limit = getattr(part, "max_size", None) or math.inf
        parts.append((part.nbytes / keys.shape[2], limit))
    return Footprint(tuple(parts), fixed)


def _flatten(cache: list[Any]) -> Iterator[Any]:
    for part in cache:
        if isinstance(part, CacheList):
            yield from _flatten(list(part.caches))
        else:
            yield part
