"""The prompt cache: keys and values of past prompts, for prompts with a common prefix.

Owns the entries, their eviction, and the counters. An entry is the cache of one row and the ids it
holds. One that can be trimmed serves every prompt with a common prefix; one that can't (a wrapped
sliding window, a recurrent state) serves only prompts that begin with all of it. A hit leaves at
least one token to feed, since logits come from feeding. Engine thread only.

mlx-lm's LRUPromptCache has no refresh on hit, no age limit and no removal of single entries, and
its trie keeps a dictionary per token; comparing arrays of ids is smaller and fast enough.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import mlx.core as mx
import numpy as np

from shared.pb import text_pb2 as pb


@dataclass(frozen=True)
class PrefixLimits:
    """Limits of the prompt cache.

    Attributes:
        min_tokens: shorter prefixes are neither stored nor used.
        ttl_s: time since the last use after which an entry is evicted.
    """

    capacity_bytes: int
    max_entries: int
    ttl_s: float
    min_tokens: int


@dataclass(eq=False)
class PrefixEntry:
    """The cache of one row after feeding `tokens`."""

    namespace: bytes
    tokens: np.ndarray
    cache: list[Any]
    trimmable: bool
    nbytes: int
    used_s: float = field(default=0.0)


class Held(Protocol):
    """An entry in memory or on disk."""

    @property
    def tokens(self) -> np.ndarray:
        """The ids it holds."""

    @property
    def trimmable(self) -> bool:
        """Whether a prefix of it can be used."""


class PrefixStorage(Protocol):
    """Keeps entries beyond the end of the process: `prefix_store.PrefixStore`."""

    def put(self, entry: PrefixEntry) -> None:
        """Keep an entry."""

    def entries(self, namespace: bytes) -> Sequence[Any]:
        """Return the stored entries of a namespace: `Held` objects."""

    def load(self, stored: Any) -> list[Any] | None:
        """Return the cache of one, or None when its file is damaged."""


def usable_tokens(entry: Held, tokens: np.ndarray) -> int:
    """Return how many leading ids of a prompt an entry can replace."""
    limit = min(len(entry.tokens), len(tokens) - 1)
    if not entry.trimmable and limit < len(entry.tokens):
        return 0
    differing = np.nonzero(entry.tokens[:limit] != tokens[:limit])[0]
    common = int(differing[0]) if len(differing) else limit
    return common if entry.trimmable or common == len(entry.tokens) else 0


class PrefixCache:
    """Entries of one model, in order of their last use.

    Args:
        store: keeps entries on disk; None for memory only.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        limits: PrefixLimits,
        store: PrefixStorage | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._store = store
        self._entries: list[PrefixEntry] = []
        self.nbytes = 0
        self.counts = pb.CacheStatsReply()

    def find(self, namespace: bytes, ids: Sequence[int]) -> tuple[list[Any], int] | None:
        """Return a cache of one row that holds a prefix of `ids`, and the length of that prefix.

        The cache is a copy: the caller may change it.
        """
        self._expire()
        self.counts.lookups += 1
        tokens = np.asarray(ids, dtype=np.int32)
        entry, common = self._best(namespace, tokens)
        if self._load_longer(namespace, tokens, common):
            entry, common = self._best(namespace, tokens)
        if entry is None or common < self._limits.min_tokens:
            return None
        self._touch(entry)
        self.counts.hits += 1
        self.counts.tokens_reused += common
        cache = copy.deepcopy(entry.cache)
        for part in cache:
            if len(entry.tokens) > common:
                part.trim(len(entry.tokens) - common)
        return cache, common

    def add(self, namespace: bytes, ids: Sequence[int], cache: list[Any]) -> None:
        """Add a cache of one row, which must not be changed afterwards.

        Args:
            ids: exactly what the cache holds.
        """
        tokens = np.asarray(ids, dtype=np.int32)
        trimmable = all(part.is_trimmable() for part in cache)
        nbytes = _size(cache)
        if len(tokens) < self._limits.min_tokens:
            return
        if nbytes > self._limits.capacity_bytes:
            self.counts.rejections_oversized += 1
            return
        # Checked last, since it reads the whole cache.
        if self._covered(namespace, tokens, trimmable=trimmable) or not _finite(cache):
            return
        entry = PrefixEntry(namespace, tokens, cache, trimmable, nbytes)
        if trimmable:
            self._drop_prefixes(entry)
        self.counts.inserts += 1
        self._insert(entry)
        if self._store is not None:
            self._store.put(entry)

    def shrink(self, capacity_bytes: int) -> None:
        """Evict the least recently used entries until the rest fits."""
        while self._entries and (
            self.nbytes > capacity_bytes or len(self._entries) > self._limits.max_entries
        ):
            self._remove(self._entries[0])
            self.counts.evictions_lru += 1

    def reset(self) -> tuple[int, int]:
        """Remove all entries; return their bytes and their number."""
        freed = self.nbytes, len(self._entries)
        self._entries.clear()
        self.nbytes = 0
        return freed

    def stats(self) -> pb.CacheStatsReply:
        """Return counters and sizes, as a copy."""
        reply = pb.CacheStatsReply()
        reply.CopyFrom(self.counts)
        reply.enabled = True
        reply.entries = len(self._entries)
        reply.bytes = self.nbytes
        reply.capacity_bytes = self._limits.capacity_bytes
        reply.max_entries = self._limits.max_entries
        return reply

    def _load_longer(self, namespace: bytes, tokens: np.ndarray, common: int) -> bool:
        """Load an entry from disk with a longer prefix of `tokens`; return whether there was one.

        Args:
            common: length of the longest prefix in memory.
        """
        if self._store is None:
            return False
        worth_tokens = max(common + 1, self._limits.min_tokens)
        usable = [(usable_tokens(item, tokens), item) for item in self._store.entries(namespace)]
        for length, item in sorted(usable, key=lambda pair: pair[0], reverse=True):
            if length < worth_tokens:
                break
            cache = self._store.load(item)
            if cache is not None:
                self._insert(
                    PrefixEntry(namespace, item.tokens, cache, item.trimmable, _size(cache))
                )
                return True
        return False

    def _insert(self, entry: PrefixEntry) -> None:
        entry.used_s = self._clock()
        self._entries.append(entry)
        self.nbytes += entry.nbytes
        self.shrink(self._limits.capacity_bytes)

    def _best(self, namespace: bytes, tokens: np.ndarray) -> tuple[PrefixEntry | None, int]:
        found, longest = None, 0
        for entry in self._of(namespace):
            common = usable_tokens(entry, tokens)
            if common > longest:
                found, longest = entry, common
        return found, longest

    def _covered(self, namespace: bytes, tokens: np.ndarray, *, trimmable: bool) -> bool:
        """Return whether an entry already holds all of `tokens`, and mark it as used."""
        for entry in self._of(namespace):
            same = len(entry.tokens) == len(tokens)
            longer = trimmable and entry.trimmable and len(entry.tokens) > len(tokens)
            if (same or longer) and np.array_equal(entry.tokens[: len(tokens)], tokens):
                self._touch(entry)
                return True
        return False

    def _drop_prefixes(self, newer: PrefixEntry) -> None:
        """Remove entries that are a prefix of a newer one."""
        for entry in list(self._of(newer.namespace)):
            shorter = entry.trimmable and len(entry.tokens) < len(newer.tokens)
            if shorter and np.array_equal(newer.tokens[: len(entry.tokens)], entry.tokens):
                self._remove(entry)

    def _of(self, namespace: bytes) -> Iterator[PrefixEntry]:
        return (entry for entry in self._entries if entry.namespace == namespace)

    def _touch(self, entry: PrefixEntry) -> None:
        entry.used_s = self._clock()
        self._entries.remove(entry)
        self._entries.append(entry)

    def _expire(self) -> None:
        oldest_s = self._clock() - self._limits.ttl_s
        while self._entries and self._entries[0].used_s < oldest_s:
            self._remove(self._entries[0])
            self.counts.evictions_ttl += 1

    def _remove(self, entry: PrefixEntry) -> None:
        self._entries.remove(entry)
        self.nbytes -= entry.nbytes


def _size(cache: list[Any]) -> int:
    return sum(part.nbytes for part in cache)


def _finite(cache: list[Any]) -> bool:
    """Evaluate a cache and return whether all its numbers are finite.

    A NaN in an entry would spoil every later answer that begins like it.
    """
    arrays = [array for part in cache for array in _arrays(part.state)]
    sums = [mx.sum(array.astype(mx.float32)) for array in arrays if _is_float(array)]
    mx.eval(arrays, sums)
    return bool(mx.all(mx.isfinite(mx.stack(sums))).item()) if sums else True


def _arrays(state: Any) -> Iterator[mx.array]:
    if isinstance(state, mx.array):
        yield state
    elif isinstance(state, list | tuple):
        for item in state:
            yield from _arrays(item)


def _is_float(array: mx.array) -> bool:
    return bool(mx.issubdtype(array.dtype, mx.floating))
