"""Chooses the rows of the next forward pass.

Owns the order in which calls are served, and the merging of rows of several calls into one
micro-batch of similar lengths, limited in rows and in padded tokens. Pure; on the model thread.
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

# Rows shorter than this count as equally long: a pass over them costs about the same.
_SHORT_TOKENS = 16


class EncoderJob(Job[NDArray[np.float32]]):
    """One call: its rows, and the results so far.

    Attributes:
        left: indices of the rows to be computed, shortest first.
        turns: micro-batches that this call has led.
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

    def take_row(self, longest: int) -> int | None:
        """Remove and return the longest row left of at most this length."""
        end = bisect.bisect_right(self.left, longest, key=lambda index: len(self.rows[index]))
        return self.left.pop(end - 1) if end else None

    def keep(self, index: int, result: NDArray[np.float32]) -> None:
        """Store a row's result; finish the call with the last one."""
        if self._results is None:
            self._results = np.empty((len(self.rows), len(result)), np.float32)
        self._results[index] = result
        self._missing -= 1
        if not self._missing and not self.ended:
            self.finish(self._results)


@dataclass(frozen=True)
class BatchLimits:
    """Limits of one micro-batch. A row longer than `tokens` runs alone."""

    rows: int
    tokens: int


Pick = list[tuple[EncoderJob, int]]


def pick(jobs: Sequence[EncoderJob], limits: BatchLimits) -> Pick:
    """Return the rows of the next micro-batch, and count the turn.

    It is led by the call of the highest class with the fewest turns, so that a new small call
    waits for at most one micro-batch of a large one. Rows of similar length from the other calls
    fill it up.

    Args:
        jobs: with rows left.
    """
    now_s = time.monotonic()
    order = sorted(jobs, key=lambda job: (job.rank(now_s)[0], job.turns, job.arrival_ns))
    leader = order[0]
    leader.turns += 1
    reach = max(len(leader.rows[leader.left[-1]]), _SHORT_TOKENS)
    batch: Pick = []
    width = 0
    for job in order:
        # The leader's longest row is taken first, whatever its length; others may be longer.
        longest = reach if job is leader else 2 * reach
        while len(batch) < limits.rows:
            index = job.take_row(_room(batch, width, longest, limits))
            if index is None:
                break
            length = len(job.rows[index])
            if batch and length < reach // 2 and reach > _SHORT_TOKENS:
                _give_back(job, index)
                break
            batch.append((job, index))
            width = max(width, bucket(length))
    return batch


def _room(batch: Pick, width: int, longest: int, limits: BatchLimits) -> int:
    """Return the length of the longest row that fits into the batch."""
    if not batch:
        return longest
    fits = _widest(limits.tokens // (len(batch) + 1))
    return min(longest, fits) if fits >= width else 0


def _widest(tokens: int) -> int:
    """Return the longest length whose bucket is at most this wide."""
    step = _step(tokens)
    return tokens // step * step


def _give_back(job: EncoderJob, index: int) -> None:
    length = len(job.rows[index])
    position = bisect.bisect_right(job.left, length, key=lambda other: len(job.rows[other]))
    job.left.insert(position, index)


def bucket(length: int) -> int:
    """Return the width that a length is padded to: at most an eighth more, or 3 tokens.

    Few widths let the device reuse its buffers.
    """
    step = _step(length)
    return -(-length // step) * step


def _step(length: int) -> int:
    return max(4, 1 << max(0, (length - 1).bit_length() - 4))
