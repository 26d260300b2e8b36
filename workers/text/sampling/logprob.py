"""Log-probabilities of sampled tokens, for the rows that ask for them.

They are those of the distribution with bias and penalties in it, before any truncation and at
temperature 1. Runs on the engine thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from shared.pb import text_pb2 as pb
from workers.text.sampling.sampler import top_candidates


class Logprob:
    """The log-probabilities of one step, being computed.

    Attributes:
        arrays: to be evaluated along with the step's tokens.
    """

    def __init__(self, rows: dict[int, int], arrays: tuple[mx.array, ...]) -> None:
        self._rows = rows
        self.arrays = arrays

    @classmethod
    def of(cls, logits: mx.array, tokens: mx.array, wanted: Sequence[int | None]) -> Logprob | None:
        """Return what is to be computed, or None when no row asks.

        Args:
            logits: [rows, vocabulary].
            tokens: int [rows], the sampled ones.
            wanted: per row how many alternatives, or None.
        """
        rows = {row: count for row, count in enumerate(wanted) if count is not None}
        if not rows:
            return None
        index = mx.array(list(rows))
        chosen = logits[index].astype(mx.float32)
        total = mx.logsumexp(chosen, axis=-1, keepdims=True)
        own = mx.take_along_axis(chosen, tokens[index][:, None], axis=-1) - total
        most = min(max(rows.values()), logits.shape[-1])
        if most == 0:
            return cls(rows, (own,))
        top, ids = top_candidates(chosen, most)
        order = mx.argsort(-top, axis=-1)
        top = mx.take_along_axis(top, order, axis=-1) - total
        return cls(rows, (own, top, mx.take_along_axis(ids, order, axis=-1)))

    def read(self, tokens: Sequence[int]) -> list[pb.TokenInfo | None]:
        """Wait, and return one entry per row of the batch; None for rows that did not ask.

        Token texts are left empty: they need the vocabulary.
        """
        values: list[Any] = [array.tolist() for array in self.arrays]
        infos: list[pb.TokenInfo | None] = [None] * len(tokens)
        for index, (row, count) in enumerate(self._rows.items()):
            info = pb.TokenInfo(id=tokens[row], logprob=values[0][index][0])
            if count:
                pairs = zip(values[2][index][:count], values[1][index][:count], strict=True)
                info.top.extend(pb.TokenInfo(id=token, logprob=value) for token, value in pairs)
            infos[row] = info
        return infos
