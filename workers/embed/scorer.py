"""The two ways in which a model says how well a document answers a query.

Both give a number from 0 to 1 per row. Rows are made on the tokenizer thread, scores on the
lane's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import mlx.core as mx
import numpy as np

from shared.lifecycle import PermanentError
from workers.embed.instruction import RERANK_PREFIX, RERANK_SUFFIX, write_rerank_prompt
from workers.embed.network.decoder import Decoder
from workers.embed.pooling import last_token
from workers.embed.row import Row
from workers.embed.tokenizer import TextTokenizer


class Scorer(Protocol):
    """What a reranker does beside its encoder.

    Attributes:
        takes_instruction: whether a request may say what is looked for.
    """

    takes_instruction: bool

    def rows(self, query: str, documents: Sequence[str], instruction: str) -> list[Row]:
        """Return a row per document."""

    def __call__(self, hidden: mx.array, lengths: mx.array) -> mx.array:
        """Return a score per row.

        Shape: [rows, width, size] to [rows, 1].
        """


class CrossEncoder:
    """A classifier with one label over the pair as one sequence."""

    takes_instruction = False

    def __init__(self, tokenizer: TextTokenizer, head: Any) -> None:
        self._tokenizer = tokenizer
        self._head = head

    def rows(self, query: str, documents: Sequence[str], instruction: str) -> list[Row]:  # noqa: ARG002
        """Part of `Scorer`."""
        return self._tokenizer.encode_pairs(query, documents)

    def __call__(self, hidden: mx.array, lengths: mx.array) -> mx.array:
        """Part of `Scorer`."""
        return mx.sigmoid(self._head(hidden, lengths).astype(mx.float32))[:, None]


class YesNoScorer:
    """A language model that is asked, and the odds of "yes" against "no" as its next token.

    Only the question is cut when it is too long: the frame around it holds the place that is
    scored.
    """

    takes_instruction = True

    def __init__(self, tokenizer: TextTokenizer, decoder: Decoder) -> None:
        self._tokenizer = tokenizer
        self._decoder = decoder
        self._before = tokenizer.piece(RERANK_PREFIX)
        self._after = tokenizer.piece(RERANK_SUFFIX)
        self._room = tokenizer.longest - len(self._before) - len(self._after)
        if self._room < 1:
            raise PermanentError("the reranker's longest text has no room for its own frame")
        self._answers = mx.array([_one_token(tokenizer, word) for word in ("yes", "no")])

    def rows(self, query: str, documents: Sequence[str], instruction: str) -> list[Row]:
        """Part of `Scorer`."""
        asked = [write_rerank_prompt(instruction, query, document) for document in documents]
        return [
            Row(np.asarray([*self._before, *ids[: self._room], *self._after], np.int32))
            for ids in self._tokenizer.pieces(asked)
        ]

    def __call__(self, hidden: mx.array, lengths: mx.array) -> mx.array:
        """Part of `Scorer`."""
        logits = self._decoder.logits(last_token(hidden, lengths)).astype(mx.float32)
        yes, no = mx.split(logits[:, self._answers], 2, axis=1)
        return mx.sigmoid(yes - no)


def _one_token(tokenizer: TextTokenizer, word: str) -> int:
    ids = tokenizer.piece(word)
    if len(ids) != 1:
        raise PermanentError(f"{word!r} is {len(ids)} tokens of the reranker, and must be one")
    return ids[0]
