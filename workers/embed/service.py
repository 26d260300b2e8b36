"""The gRPC service of an embed or rerank worker.

Owns the RPCs and the tokenizer thread. Runs on the event loop; tokenizing runs on the tokenizer
thread in small pieces, so that a call of thousands of texts does not block others, and the model
on the model thread.
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
from workers.embed.batcher import EncoderJob
from workers.embed.instruction import write_instruction
from workers.embed.model import EncoderModel
from workers.embed.pooling import Vectors, finish
from workers.embed.row import Row
from workers.error_boundary import RpcContext, error_boundary
from workers.model_thread import ModelThread
from workers.unary import time_left_s

T = TypeVar("T")

# Of one piece of the tokenizer thread's work.
_PIECE_CHARACTERS = 64 * 1024
_PIECE_TEXTS = 256
# Vectors whose norms take less time than switching to another thread.
_FEW = 32
# Of one call: 64 MB of ids.
_MAX_TOKENS = 16 * 1024 * 1024


class EmbedService(embed_pb2_grpc.EmbedServicer):
    """Serves one model."""

    def __init__(self, model_thread: ModelThread[EncoderModel, EncoderJob]) -> None:
        self._model_thread = model_thread
        self._tokenizing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tokenizer")

    @error_boundary
    async def Embed(self, request: pb.EmbedRequest, context: RpcContext) -> pb.EmbedReply:
        with self._model_thread.admit() as model:
            if model.scorer is not None:
                raise ServiceError("not_supported", "This model only scores documents.")
            rows = await self._read_items(model, request)
            vectors = await self._run(request, rows, context)
            norm = request.normalize if request.HasField("normalize") else model.norm
            dimensions = request.dimensions if request.HasField("dimensions") else None
            pack = partial(_pack, vectors, norm, dimensions)
            data, width = pack() if len(rows) <= _FEW else await self._off_loop(pack)
        return pb.EmbedReply(vectors=data, dimensions=width, prompt_tokens=_count(rows))

    @error_boundary
    async def Rerank(self, request: pb.RerankRequest, context: RpcContext) -> pb.RerankReply:
        with self._model_thread.admit() as model:
            scorer = model.scorer
            if scorer is None:
                raise ServiceError("not_supported", "This model only makes vectors.")

            def make_rows(documents: Sequence[str]) -> list[Row]:
                return scorer.make_rows(request.query, documents, request.instruction)

            extra = len(request.query)
            rows = await self._in_pieces(make_rows, request.documents, extra)
            # Equal documents are computed once: in different batches their scores may differ in
            # the last bit, which would change their order.
            distinct = {row.key: row for row in rows}
            scores = await self._run(request, list(distinct.values()), context)
            score_of = dict(zip(distinct, scores[:, 0].tolist(), strict=True))
        return pb.RerankReply(
            scores=[score_of[row.key] for row in rows], prompt_tokens=_count(rows)
        )

    async def _read_items(self, model: EncoderModel, request: pb.EmbedRequest) -> list[Row]:
        """Return a row per item."""
        tokenizer, family = model.tokenizer, model.family
        texts = [item.text for item in request.items if item.HasField("text")]

        def encode(piece: Sequence[str]) -> list[Row]:
            written = [write_instruction(family, request.instruction, text) for text in piece]
            return tokenizer.encode(written)

        encoded = iter(await self._in_pieces(encode, texts, len(request.instruction)))
        rows = [
            next(encoded) if item.HasField("text") else tokenizer.make_row(item.tokens.ids)
            for item in request.items
        ]
        _bound(rows)
        return rows

    async def _in_pieces(
        self, encode: Callable[[Sequence[str]], list[Row]], texts: Sequence[str], extra: int
    ) -> list[Row]:
        """Encode texts on the tokenizer thread, a piece at a time.

        Args:
            extra: characters that are tokenized with each text.
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
    ) -> Vectors:
        """Run the model on rows.

        Raises:
            ServiceError: a result is not finite, the model failed, or the deadline has passed.
        """
        job = EncoderJob(rows, request.priority, request.arrival_ns, time_left_s(context))
        results: Vectors = await self._model_thread.run(job)
        self._model_thread.counters.prefill_tokens += _count(rows)
        if not np.isfinite(results).all():
            raise ServiceError("internal", "inference returned an invalid numeric result")
        return results

    async def _off_loop(self, work: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._tokenizing, work, *args)


def _pack(vectors: Vectors, norm: int, dimensions: int | None) -> tuple[bytes, int]:
    finished = finish(vectors, norm, dimensions)
    return np.ascontiguousarray(finished, "<f4").tobytes(), finished.shape[1]


def _count(rows: Sequence[Row]) -> int:
    return sum(map(len, rows))


def _bound(rows: Sequence[Row]) -> None:
    if _count(rows) > _MAX_TOKENS:
        raise ServiceError(
            "invalid_request", f"the request has more than {_MAX_TOKENS} tokens; send it in parts"
        )
