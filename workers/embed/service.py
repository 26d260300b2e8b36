"""The gRPC face of an embed or rerank worker.

Owns the RPCs and the tokenizer thread. Runs on the event loop; what takes long goes to the
tokenizer thread in small pieces, so that a call of thousands of texts lets others through, and
what computes goes to the lane.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import numpy as np

from shared.errors import ServiceError
from shared.pb import embed_pb2 as pb
from shared.pb import embed_pb2_grpc
from workers.embed import pooling
from workers.embed.batcher import Work
from workers.embed.instruction import write_instruction
from workers.embed.model import EncoderModel
from workers.embed.row import Row
from workers.error_boundary import RpcContext, error_boundary
from workers.model_thread import ModelThread
from workers.unary import time_left_s

Results = Any
T = TypeVar("T")

# Characters and texts of one piece of the tokenizer's work.
_PIECE_CHARACTERS = 64 * 1024
_PIECE_TEXTS = 256
_FEW = 32
# Of one call, over all its rows: 64 MB of ids.
_MAX_TOKENS = 16 * 1024 * 1024


class EmbedService(embed_pb2_grpc.EmbedServicer):
    """Serves one model."""

    def __init__(self, model_thread: ModelThread[EncoderModel, Work]) -> None:
        self._model_thread = model_thread
        self._tokenizing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tokenizer")

    @error_boundary
    async def Embed(self, request: pb.EmbedRequest, context: RpcContext) -> pb.EmbedReply:
        with self._model_thread.admit() as model:
            if model.judge is not None:
                raise ServiceError("not_supported", "This model scores documents only.")
            rows = await self._read_items(model, request)
            vectors = await self._run(request, rows, context)
            norm = request.normalize if request.HasField("normalize") else model.norm
            kept = request.dimensions if request.HasField("dimensions") else None
            pack = partial(_pack, vectors, norm, kept)
            # The norms of a few vectors take less time than the way to another thread.
            data, width = pack() if len(rows) <= _FEW else await self._off_loop(pack)
        return pb.EmbedReply(vectors=data, dimensions=width, prompt_tokens=_count(rows))

    @error_boundary
    async def Rerank(self, request: pb.RerankRequest, context: RpcContext) -> pb.RerankReply:
        with self._model_thread.admit() as model:
            judge = model.judge
            if judge is None:
                raise ServiceError("not_supported", "This model makes vectors only.")

            def write(documents: Sequence[str]) -> list[Row]:
                return judge.rows(request.query, documents, request.instruction)

            extra = len(request.query)
            rows = await self._in_pieces(write, request.documents, extra)
            # Computed twice, equal documents would differ in the last bit, and change places.
            distinct = {row.key: row for row in rows}
            scores = await self._run(request, list(distinct.values()), context)
            score_of = dict(zip(distinct, scores[:, 0].tolist(), strict=True))
        return pb.RerankReply(
            scores=[score_of[row.key] for row in rows], prompt_tokens=_count(rows)
        )

    # ---------------------------------------------------------------- innards

    async def _read_items(self, model: EncoderModel, request: pb.EmbedRequest) -> list[Row]:
        """Return a row per item, in order."""
        tokenizer, family = model.tokenizer, model.family
        texts = [item.text for item in request.items if item.HasField("text")]

        def encode(piece: Sequence[str]) -> list[Row]:
            written = [write_instruction(family, request.instruction, text) for text in piece]
            return tokenizer.encode(written)

        encoded = iter(await self._in_pieces(encode, texts, len(request.instruction)))
        rows = [
            next(encoded) if item.HasField("text") else tokenizer.take(item.tokens.ids)
            for item in request.items
        ]
        _bound(rows)
        return rows

    async def _in_pieces(
        self, encode: Callable[[Sequence[str]], list[Row]], texts: Sequence[str], extra: int
    ) -> list[Row]:
        """Return what the tokenizer thread makes of texts, a piece at a time.

        Args:
            extra: characters that are read again with each text.
        """
        rows: list[Row] = []
        begin = 0
        while begin < len(texts):
            end, characters = begin, 0
            while end < len(texts) and end - begin < _PIECE_TEXTS:
                if characters >= _PIECE_CHARACTERS:
                    break
                characters += len(texts[end]) + extra
                end += 1
            rows += await self._off_loop(encode, texts[begin:end])
            _bound(rows)
            begin = end
        return rows

    async def _run(
        self, request: pb.EmbedRequest | pb.RerankRequest, rows: Sequence[Row], context: RpcContext
    ) -> Results:
        """Return what the model makes of rows.

        Raises:
            ServiceError: it gave no finite number, it failed, or time was up.
        """
        work = Work(rows, request.priority, request.arrival_ns, time_left_s(context))
        results = await self._model_thread.run(work)
        self._model_thread.counters.prefill_tokens += _count(rows)
        if not np.isfinite(results).all():
            raise ServiceError("internal", "inference returned an invalid numeric result")
        return results

    async def _off_loop(self, work: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._tokenizing, work, *args)


def _pack(vectors: pooling.Vectors, norm: int, kept: int | None) -> tuple[bytes, int]:
    done = pooling.finish(vectors, norm, kept)
    return np.ascontiguousarray(done, "<f4").tobytes(), done.shape[1]


def _count(rows: Sequence[Row]) -> int:
    return sum(map(len, rows))


def _bound(rows: Sequence[Row]) -> None:
    if _count(rows) > _MAX_TOKENS:
        raise ServiceError(
            "invalid_request", f"the request has more than {_MAX_TOKENS} tokens; send it in parts"
        )
