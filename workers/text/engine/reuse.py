"""When the prompt cache is read and written.

Policy between engine and prefix cache. Runs on the engine thread.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from workers.text.cache.prefix_cache import PrefixCache
from workers.text.engine.batch import Batch
from workers.text.engine.scheduler import MemoryPlan
from workers.text.engine.sequence import Sequence

# Prefilling a shorter completion again is faster than copying its row.
_WORTH_TOKENS = 32


class Reuse:
    """Reads and writes the prompt cache for the sequences of an engine.

    Args:
        cache: None when the prompt cache is off.
        memory: what running sequences may hold; the prompt cache gets the rest.
    """

    def __init__(self, cache: PrefixCache | None, memory: MemoryPlan) -> None:
        self.cache = cache
        self._memory = memory

    def begin(self, sequence: Sequence, held: Iterable[Sequence]) -> None:
        """Give a sequence that gets a slot the longest cached prefix of its prompt."""
        if self.cache is None:
            return
        if sequence.cache is None and sequence.namespace is not None:
            found = self.cache.find(sequence.namespace, sequence.feed)
            if found is not None:
                sequence.cache, sequence.fed_tokens = found
            if not sequence.started:
                sequence.cached_tokens = min(sequence.fed_tokens, len(sequence.prompt))
        self.cache.shrink(max(0, self._memory.budget_bytes - self._memory.held_bytes(held)))

    def keep_prompt(self, sequence: Sequence) -> None:
        """Cache what a prefill chunk has computed, at the end of the prompt or at a snapshot."""
        if sequence.cache is None or sequence.namespace is None:
            return
        done = sequence.pending is not None
        whole = all(part.is_trimmable() for part in sequence.cache)
        if (done and whole) or (not whole and sequence.fed_tokens in sequence.snapshots):
            # The batch copies a row that joins it; the next chunk changes this one in place.
            self._add(sequence, sequence.cache if done else copy.deepcopy(sequence.cache))

    def keep_part(self, sequence: Sequence) -> None:
        """Cache the computed part of a sequence that ended before decoding: it may be repeated."""
        if sequence.cache is not None:
            self._add(sequence, sequence.cache)

    def keep_row(self, sequence: Sequence, batch: Batch) -> None:
        """Cache the row of a sequence that is about to leave the batch.

        The batch may have fed a token or two past its end.
        """
        if self.cache is None or sequence.namespace is None:
            return
        cache = batch.copy_cache(sequence)
        trimmable = all(part.is_trimmable() for part in cache)
        if trimmable and len(sequence.ids) < _WORTH_TOKENS:
            return
        extra = sequence.fed_tokens - sequence.total_tokens
        if extra > 0:
            if not trimmable:
                return
            for part in cache:
                part.trim(extra)
            sequence.fed_tokens -= extra
        self._add(sequence, cache)

    def spill(self, sequence: Sequence) -> None:
        """Move the memory of a preempted sequence to the prompt cache, where it can be evicted."""
        if sequence.cache is not None and sequence.namespace is not None:
            self._add(sequence, sequence.cache)
        sequence.release()
        sequence.fed_tokens = 0

    def _add(self, sequence: Sequence, cache: list[Any]) -> None:
        if self.cache is not None and sequence.namespace is not None:
            ids = sequence.feed[: sequence.fed_tokens]
            self.cache.add(sequence.namespace, ids, cache)
