"""The two kinds of rerankers, and how each scores a document for a query.

Scores are from 0 to 1, one per row. Rows are made on the tokenizer thread, scores on the model
thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import mlx.core as mx
import numpy as np

from shared.lifecycle import PermanentError
from workers.embed.instruction import RERANK_PREFIX, RERANK_SUFFIX, write_rerank_prompt
from workers.embed.network.module import PerRow
from workers.embed.pooling import last_token
from workers.embed.row import Row
from workers.embed.tokenizer import TextTokenizer


class Scorer(Protocol):
    """The part of a reranker around its encoder.

    Attributes:
        takes_instruction: whether a request may have an instruction.
    """

    takes_instruction: bool

    def make_rows(self, query: str, documents: Sequence[str], instruction: str) -> list[Row]:
        """Return a row per document."""

    def __call__(self, hidden: mx.array, lengths: mx.array) -> mx.array:
        """Return a score per row.

        Shape: [rows, width, size] to [rows, 1].
        """


class CrossEncoder:
    """A classifier with one label for query and document as one sequence."""

    takes_instruction = False

    def __init__(self, tokenizer: TextTokenizer, head: PerRow) -> None:
        self._tokenizer = tokenizer
        self._head = head

    def make_rows(self, query: str, documents: Sequence[str], instruction: str) -> list[Row]:  # noqa: ARG002
        return self._tokenizer.encode_pairs(query, documents)

    def __call__(self, hidden: mx.array, lengths: mx.array) -> mx.array:
        return mx.sigmoid(self._head(hidden, lengths).astype(mx.float32))[:, None]


class YesNoScorer:
    """A language model, scored by the odds of "yes" against "no" as its next token.

    Only the question is truncated, since the prompt around it holds the scored token.

    Args:
        read_logits: the language head: [rows, size] to [rows, vocabulary].
    """

    takes_instruction = True

    def __init__(
        self, tokenizer: TextTokenizer, read_logits: Callable[[mx.array], mx.array]
    ) -> None:
        self._tokenizer = tokenizer
        self._read_logits = read_logits
        self._before = tokenizer.encode_plain(RERANK_PREFIX)
        self._after = tokenizer.encode_plain(RERANK_SUFFIX)
        self._room = tokenizer.longest - len(self._before) - len(self._after)
        if self._room < 1:
            raise PermanentError("the reranker's longest text is shorter than its own prompt")
        self._answers = mx.array([_one_token(tokenizer, word) for word in ("yes", "no")])

    def make_rows(self, query: str, documents: Sequence[str], instruction: str) -> list[Row]:
        questions = [write_rerank_prompt(instruction, query, document) for document in documents]
        return [
            Row(np.asarray([*self._before, *ids[: self._room], *self._after], np.int32))
            for ids in self._tokenizer.encode_truncated(questions)
        ]

    def __call__(self, hidden: mx.array, lengths: mx.array) -> mx.array:
        logits = self._read_logits(last_token(hidden, lengths)).astype(mx.float32)
        yes, no = mx.split(logits[:, self._answers], 2, axis=1)
        return mx.sigmoid(yes - no)


def _one_token(tokenizer: TextTokenizer, word: str) -> int:
    ids = tokenizer.encode_plain(word)
    if len(ids) != 1:
        raise PermanentError(f"{word!r} must be one token of the reranker, and is {len(ids)}")
    return ids[0]
