"""Which rows go into the next forward pass.

Owns the order in which calls get their turn, and the merging of rows of several calls into one
micro-batch of similar lengths, bounded in rows and in padded tokens. Pure; on the lane's thread.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shared.pb import common_pb2 as common
from workers.embed.row import Row
from workers.job import Job

# Rows shorter than this all count as of one length: a pass over them costs about the same.
_SHORT_TOKENS = 16


class Work(Job[NDArray[np.float32]]):
    """One call: rows, and what the model has made of them so far.

    Attributes:
        left: indices of the rows to be computed, shortest first.
        turns: micro-batches that were made up for this call.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        priority: common.Priority.ValueType,
        arrival_ns: int,
        timeout_s: float | None,
    ) -> None:
        super().__init__(priority, arrival_ns, timeout_s)
        self.rows = rows
        self.left = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        self.turns = 0
        self._results: NDArray[np.float32] | None = None
        self._missing = len(rows)

    def take(self, longest: int) -> int | None:
        """Return the longest row left that is no longer than this, and have it no more."""
        end = bisect.bisect_right(self.left, longest, key=lambda index: len(self.rows[index]))
        return self.left.pop(end - 1) if end else None

    def keep(self, index: int, result: NDArray[np.float32]) -> None:
        """Keep what a row has become; answer the call with the last one."""
        if self._results is None:
            self._results = np.empty((len(self.rows), len(result)), np.float32)
        self._results[index] = result
        self._missing -= 1
        if not self._missing and not self.ended:
            self.finish(self._results)


@dataclass(frozen=True)
class BatchLimits:
    """Of one micro-batch. A row longer than `tokens` runs alone."""

    rows: int
    tokens: int


Pick = list[tuple[Work, int]]


def pick(works: Sequence[Work], limits: BatchLimits) -> Pick:
    """Return the rows of the next micro-batch, and count the turn.

    It is made up for the call of the highest class that has had the fewest turns: a new small
    call thus waits for one micro-batch of a large one at most. Rows of the others fill it up
    while their lengths are similar.

    Args:
        works: with rows left.
    """
    now_s = time.monotonic()
    order = sorted(works, key=lambda work: (work.rank(now_s)[0], work.turns, work.arrival_ns))
    leader = order[0]
    leader.turns += 1
    reach = max(len(leader.rows[leader.left[-1]]), _SHORT_TOKENS)
    batch: Pick = []
    width = 0
    for work in order:
        # The leader's own longest row comes first, whatever its length; others may be longer.
        longest = reach if work is leader else 2 * reach
        while len(batch) < limits.rows:
            index = work.take(_room(batch, width, longest, limits))
            if index is None:
                break
            length = len(work.rows[index])
            if batch and length < reach // 2 and reach > _SHORT_TOKENS:
                _give_back(work, index)
                break
            batch.append((work, index))
            width = max(width, bucket(length))
    return batch


def _room(batch: Pick, width: int, longest: int, limits: BatchLimits) -> int:
    """Return the length of the longest row that still fits."""
    if not batch:
        return longest
    fits = _widest(limits.tokens // (len(batch) + 1))
    return min(longest, fits) if fits >= width else 0


def _widest(tokens: int) -> int:
    """Return the longest length whose bucket is no wider than this."""
    step = _step(tokens)
    return tokens // step * step


def _give_back(work: Work, index: int) -> None:
    length = len(work.rows[index])
    place = bisect.bisect_right(work.left, length, key=lambda other: len(work.rows[other]))
    work.left.insert(place, index)


def bucket(length: int) -> int:
    """Return the width that a length is padded to: an eighth more at most, beyond a few tokens.

    Few widths let the device reuse its buffers.
    """
    step = _step(length)
    return -(-length // step) * step


def _step(length: int) -> int:
    return max(4, 1 << max(0, (length - 1).bit_length() - 4))
