"""The rows that decode together, over mlx-lm's cache classes.

Owns the arrays: the batch's cache, the tokens in flight, prefill, and rows that join and leave.
Sampling is next_token.py's. Runs on the engine thread.

A step has three parts, so that the device is never idle while Python works: `build` makes the
graph of the next forward pass while the last one computes, `collect` waits for its tokens, and
`launch` samples the next ones and starts computing them. Where no row's next token depends on what
Python makes of the last, a step is launched before the tokens of the previous one are collected.

Each prompt is prefilled in a cache of its own, so that a long one does not pad the others; short
ones that arrive together share one pass. A row that decodes alone stays in such a cache: without
padding there is no mask, which is a tenth to a fifth of a small model's step.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence as Rows
from typing import Any

import mlx.core as mx
from mlx.utils import tree_map
from mlx_lm.models.cache import BatchKVCache

from workers.text.cache import plain_cache
from workers.text.engine import next_token
from workers.text.engine.next_token import NextToken, Sampled
from workers.text.engine.sequence import Sequence
from workers.text.model import TextModel
from workers.text.sampling.logprob import Logprob


class Batch:
    """Rows of one model.

    Attributes:
        rows: the sequences that decode, in row order.
    """

    def __init__(self, model: TextModel) -> None:
        self._model = model
        self.rows: list[Sequence] = []
        self._cache: list[Any] = []
        self._tokens: mx.array | None = None
        self._logprob: Logprob | None = None
        self._logits: mx.array | None = None
        self._next_token: NextToken | None = None
        # Leading rows whose token in flight has not been returned. Rows that joined since have a
        # token that was returned by `first`.
        self._due = 0
        # Rows and tokens of the previous step, when a step was launched before collecting them.
        self._earlier: tuple[list[Sequence], mx.array] | None = None

    # -------------------------------------------------------------- the step

    def build(self) -> None:
        """Make the graph of the next forward pass; nothing is computed yet."""
        if self.rows and self._logits is None:
            assert self._tokens is not None
            self._logits = self._model.forward(self._tokens[:, None], self._cache)
            for row in self.rows:
                row.fed_tokens += 1

    def collect(self) -> list[Sampled]:
        """Wait for the oldest tokens in flight and return them, one per row that was launched."""
        if self._earlier is not None:
            (rows, tokens), self._earlier = self._earlier, None
            return next_token.read(rows, tokens, None) if rows else []
        if not self._due:
            return []
        assert self._tokens is not None
        sampled = next_token.read(self.rows[: self._due], self._tokens, self._logprob)
        self._due, self._logprob = 0, None
        return sampled

    def wait(self) -> None:
        """Wait for the step in flight, without collecting its tokens."""
        if self._tokens is not None:
            mx.eval(self._tokens)

    def launch_ahead(self) -> bool:
        """Launch before `collect` unless a row depends on its last token; return whether it did."""
        if not self.rows or any(map(next_token.depends_on_last, self.rows)):
            return False
        assert self._tokens is not None
        earlier = self.rows[: self._due], self._tokens
        self.launch()
        self._earlier = earlier
        return True

    def launch(self) -> None:
        """Sample from the forward pass that `build` made, and start computing it."""
        if not self.rows:
            return
        self.build()
        assert self._logits is not None
        if self._next_token is None:
            self._next_token = NextToken(self._model, self.rows)
        self._tokens, self._logprob = self._next_token.sample(self._logits, self._due)
        self._logits, self._due = None, len(self.rows)
        mx.async_eval(self._tokens, *(self._logprob.arrays if self._logprob else ()))

    # --------------------------------------------------------------- prefill

    def prefill(self, sequence: Sequence, limit_tokens: int) -> int:
        """Feed up to `limit_tokens` of a sequence's prompt; return how many were fed.

        Once nothing is left to feed, the sequence has its first token in `sequence.pending`,
        being computed.
        """
        if sequence.cache is None:
            sequence.cache = self._model.new_cache()
        chunk = sequence.feed[sequence.fed_tokens : sequence.fed_tokens + limit_tokens]
        logits = self._model.forward(mx.array([chunk]), sequence.cache)
        sequence.fed_tokens += len(chunk)
        if sequence.fed_tokens < sequence.total_tokens:
            mx.eval([cache.state for cache in sequence.cache])
        else:
            self._begin(sequence, logits)
        return len(chunk)

    def prefill_together(self, sequences: Rows[Sequence]) -> int:
        """Feed whole prompts of which nothing has been fed; return how many tokens that took.

        The weights are read once for all of them. Afterwards each has a cache of its own and its
        first token, as after `prefill`. Only for a model that `pads`.
        """
        feeds = [sequence.feed for sequence in sequences]
        longest = max(map(len, feeds))
        padding = [longest - len(feed) for feed in feeds]
        cache: list[Any] = [BatchKVCache(padding) for _ in self._model.new_cache()]
        rows = [[0] * left + feed for left, feed in zip(padding, feeds, strict=True)]
        logits = self._model.forward(mx.array(rows), cache)
        for index, sequence in enumerate(sequences):
            sequence.cache = [part.extract(index) for part in cache]
            sequence.fed_tokens = len(feeds[index])
            self._begin(sequence, logits[index : index + 1])
        return longest * len(feeds)

    def _begin(self, sequence: Sequence, logits: mx.array) -> None:
        """Sample a sequence's first token, and start computing it."""
        assert sequence.cache is not None
        sampler = NextToken(self._model, [sequence])
        sequence.pending, sequence.pending_logprob = sampler.sample(logits)
        mx.async_eval(sequence.pending, [cache.state for cache in sequence.cache])

    def first(self, sequence: Sequence) -> Sampled:
        """Wait for a sequence's first token, which `prefill` started to compute."""
        assert sequence.pending is not None
        return next_token.read([sequence], sequence.pending, sequence.pending_logprob)[0]

    # ------------------------------------------------------- rows join and leave

    def join(self, sequences: Rows[Sequence]) -> None:
        """Add rows that have a cache and a pending token; after a launch, before a build."""
        assert self._logits is None
        if not sequences:
            return
        self._add_caches([list(sequence.cache or ()) for sequence in sequences])
        tokens = [sequence.pending for sequence in sequences if sequence.pending is not None]
        self._tokens = mx.concatenate(tokens if self._tokens is None else [self._tokens, *tokens])
        for sequence in sequences:
            self.rows.append(sequence)
            sequence.cache = sequence.pending = sequence.pending_logprob = None
        self._next_token = None

    def _add_caches(self, caches: Rows[list[Any]]) -> None:
        if not self.rows:
            # The prompt cache may hold the same objects; their arrays are shared until written.
            self._cache, *caches = [copy.deepcopy(caches[0]), *caches[1:]]
        if not caches:
            return
        others = list(zip(*caches, strict=True))
        if not all(map(plain_cache.is_plain, self._cache)) and len(self.rows) < 2:
            self._cache = [part.merge([part]) for part in self._cache]
        self._cache = [_joined(part, more) for part, more in zip(self._cache, others, strict=True)]

    def drop(self, ended: Rows[Sequence]) -> None:
        """Remove rows that have ended."""
        gone = {id(sequence) for sequence in ended}
        keep = [index for index, row in enumerate(self.rows) if id(row) not in gone]
        if len(keep) < len(self.rows):
            self._keep(keep)

    def take(self, sequence: Sequence) -> None:
        """Remove a row with its cache and its next token, to join again later.

        Its cache is never trimmed: with a sliding window that has wrapped, or a recurrent state,
        that would silently give wrong text. Call it right after `collect`, before the next build.
        """
        assert self._logits is None
        assert self._tokens is not None
        assert not self._due
        index = self.rows.index(sequence)
        sequence.cache = self._extract(index)
        sequence.pending = self._tokens[index : index + 1]
        # Without this the parked row would keep the whole batch's buffers alive.
        mx.eval(sequence.pending, [part.state for part in sequence.cache])
        self._keep([row for row in range(len(self.rows)) if row != index])

    def copy_cache(self, sequence: Sequence) -> list[Any]:
        """Return a copy of a row's cache, of `sequence.fed_tokens` tokens, lazily."""
        if len(self.rows) == 1:
            return copy.deepcopy(self._cache)
        return self._extract(self.rows.index(sequence))

    def _extract(self, index: int) -> list[Any]:
        if len(self.rows) == 1:
            return self._cache
        row = [part.extract(index) for part in self._cache]
        for part in row:
            # `ArraysCache.extract` returns views, which would keep every row's state alive.
            part.state = tree_map(_compact, part.state)
        return row

    def _keep(self, keep: list[int]) -> None:
        assert self._logprob is None
        if len(keep) == 1:
            self._cache = self._extract(keep[0])
        elif keep:
            for part in self._cache:
                part.filter(keep)
        self.rows = [self.rows[index] for index in keep]
        self._next_token = None
        self._due = sum(index < self._due for index in keep)
        if not keep:
            self._cache, self._tokens, self._logits = [], None, None
            return
        index = mx.array(keep)
        assert self._tokens is not None
        self._tokens = self._tokens[index]
        if self._logits is not None:
            self._logits = self._logits[index]

    @property
    def kv_bytes(self) -> int:
        """Of the batch's cache."""
        return sum(part.nbytes for part in self._cache)


def _joined(mine: Any, others: Rows[Any]) -> Any:
    """Return one layer's cache with the rows of others after its own."""
    if plain_cache.is_plain(mine):
        return plain_cache.join(mine, others)
    for other in others:
        mine.extend(other.merge([other]))
    return mine


def _compact(leaf: Any) -> Any:
    return mx.contiguous(leaf) if isinstance(leaf, mx.array) else leaf
