"""From the logits of some rows to their next tokens, with every rule their requests have.

Owns the order in which those rules are applied, and which of them depend on the last token. Each
rule is a module of its own in sampling/; the logits are batch.py's. Runs on the engine thread.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from shared.pb import text_pb2 as pb
from workers.text.engine.sequence import Sequence
from workers.text.model import TextModel
from workers.text.sampling import mask, penalty
from workers.text.sampling.logprob import Logprob
from workers.text.sampling.sampler import Sampler, remaining


@dataclass(frozen=True)
class Sampled:
    """One token of one sequence."""

    sequence: Sequence
    token: int
    info: pb.TokenInfo | None


class NextToken:
    """Samples the next token of every row; replaced when rows join or leave."""

    def __init__(self, model: TextModel, rows: Rows[Sequence]) -> None:
        self._keep_ids = model.keep_ids
        self._rows = list(rows)
        rules = [row.sampling for row in rows]
        seeds = [row.request.sampling.seed for row in rows]
        self._sampler = Sampler(rules, seeds, model.vocab_tokens, model.keep_ids)

    def sample(self, logits: mx.array, due: int = 0) -> tuple[mx.array, Logprob | None]:
        """Return the next token of each row and its log-probability, lazily.

        Args:
            logits: [rows, vocabulary].
            due: leading rows that have a token in flight already.
        """
        rows = self._rows
        if any(row.penalty.active for row in rows):
            contexts = [row.feed if row.penalty.active else () for row in rows]
            logits = penalty.apply(logits, [row.penalty for row in rows], contexts)
        guides = [row.guide for row in rows]
        if any(guide is not None for guide in guides):
            logits = mask.apply(logits, guides)
        positions = [len(row.ids) + (index < due) for index, row in enumerate(rows)]
        tokens = self._sampler.sample(logits, positions)
        wanted = [row.logprobs for row in rows]
        return tokens, Logprob.of(self._shown(logits), tokens, wanted)

    def _shown(self, logits: mx.array) -> mx.array:
        """Return the logits whose probabilities are reported; filtered for rows that ask for it."""
        if not any(row.request.logprobs.post_sampling for row in self._rows):
            return logits
        parts = []
        for index, row in enumerate(self._rows):
            part = logits[index : index + 1].astype(mx.float32)
            if row.request.logprobs.post_sampling:
                seed = row.request.sampling.seed
                part = remaining(row.sampling, seed, len(row.ids), part, self._keep_ids)
            parts.append(part)
        return mx.concatenate(parts)


def depends_on_last(row: Sequence) -> bool:
    """Return whether a row's next token depends on its last, or comes with its probability."""
    return row.penalty.active or row.guide is not None or row.logprobs is not None


def read(rows: Rows[Sequence], tokens: mx.array, logprob: Logprob | None) -> list[Sampled]:
    """Wait for tokens and return them with their log-probabilities."""
    ids: Any = tokens.tolist()
    infos = logprob.read(ids[: len(rows)]) if logprob else [None] * len(rows)
    return [Sampled(row, ids[i], infos[i]) for i, row in enumerate(rows)]
