"""What one sequence leaves for the next: when the prompt cache is read and written.

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

# A completion shorter than this is sooner prefilled again than its row is copied.
_WORTH_TOKENS = 32


class Reuse:
    """Reads and writes the prompt cache for the sequences of an engine.

    Args:
        cache: None when the prompt cache is off.
        memory: what running sequences may hold; the prompt cache gets what they leave.
    """

    def __init__(self, cache: PrefixCache | None, memory: MemoryPlan) -> None:
        self.cache = cache
        self._memory = memory

    def begin(self, sequence: Sequence, held: Iterable[Sequence]) -> None:
        """Give a sequence that takes a slot the beginning it shares with an earlier one."""
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
        """Keep what a prefill chunk has computed, if its end is worth it."""
        if sequence.cache is None or sequence.namespace is None:
            return
        done = sequence.pending is not None
        whole = all(part.is_trimmable() for part in sequence.cache)
        if (done and whole) or (not whole and sequence.fed_tokens in sequence.snapshots):
            # The batch copies a row that joins it; the next chunk changes this one in place.
            self._add(sequence, sequence.cache if done else copy.deepcopy(sequence.cache))

    def keep_part(self, sequence: Sequence) -> None:
        """Keep what a sequence computed that ended outside the batch: its client may ask again."""
        if sequence.cache is not None:
            self._add(sequence, sequence.cache)

    def keep_row(self, sequence: Sequence, batch: Batch) -> None:
        """Keep the row of a sequence that is about to leave the batch for good.

        The batch may have fed a token or two beyond its end.
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
        """Move a parked sequence's memory to the prompt cache, where it can be thrown out."""
        if sequence.cache is not None and sequence.namespace is not None:
            self._add(sequence, sequence.cache)
        sequence.release()
        sequence.fed_tokens = 0

    def _add(self, sequence: Sequence, cache: list[Any]) -> None:
        if self.cache is not None and sequence.namespace is not None:
            ids = sequence.feed[: sequence.fed_tokens]
            self.cache.add(sequence.namespace, ids, cache)
