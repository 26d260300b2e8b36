"""An embed or rerank worker without a model: a gRPC server; texts contain directions for it.

The first text of a call may be a word in brackets: [hold] waits for `release`, [die] ends the
server without an answer, as often as `lives` allows, [fail=CODE] refuses, [none] gives no number.
A vector holds the length of its text and its index. Runs inside a test's event loop.
"""

from __future__ import annotations

import array
import asyncio
import math
import re
import secrets
from collections.abc import AsyncIterator

from shared import rpc
from shared.errors import ServiceError, abort
from shared.pb import embed_pb2 as pb
from shared.pb import embed_pb2_grpc, worker_pb2, worker_pb2_grpc

WIDTH = 4
_WORD = re.compile(r"\[(\w+)(?:=(\w+))?\]")


class FakeEmbedWorker(worker_pb2_grpc.WorkerServicer, embed_pb2_grpc.EmbedServicer):
    """The fake.

    Args:
        lives: how often [die] ends it.

    Attributes:
        seen: every call, in order of arrival.
        cancelled: calls whose client went away.
    """

    def __init__(
        self, address: str, kind: str = "embed", *, lives: int = 1, **card: object
    ) -> None:
        self.address = address
        self.lives = lives
        self.card = worker_pb2.ModelCard(
            name=f"fake-{kind}",
            kind=kind,
            vocab_tokens=100,
            max_batch_size=8,
            queue_limit=4,
            encoder=worker_pb2.EncoderCard(dimensions=WIDTH if kind == "embed" else 0),
        )
        self.card.MergeFrom(worker_pb2.ModelCard(**card))
        self.loading = False
        self.seen: list[pb.EmbedRequest | pb.RerankRequest] = []
        self.cancelled = 0
        self.release = asyncio.Event()
        self._server: rpc.WorkerServer | None = None
        self._dying: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen, as a new process would."""
        if self._dying is not None:
            await self._dying
        self._instance = secrets.token_hex(4)
        self._server = rpc.WorkerServer(self.address, "mlxcel.v1.Worker")
        worker_pb2_grpc.add_WorkerServicer_to_server(self, self._server.server)
        self._offer(self._server.server)
        await self._server.start()

    def _offer(self, server) -> None:
        embed_pb2_grpc.add_EmbedServicer_to_server(self, server)

    async def stop(self) -> None:
        """Exit at once."""
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(0)

    @property
    def listening(self) -> bool:
        """Whether it is running."""
        return self._server is not None

    async def Describe(self, request, context):  # noqa: N802
        if self.loading:
            await abort(context, ServiceError("model_loading", "still loading"))
        return self.card

    async def Pulse(self, request, context) -> AsyncIterator[worker_pb2.Heartbeat]:  # noqa: N802
        while True:
            yield worker_pb2.Heartbeat(instance=self._instance)
            await asyncio.sleep(0.05)

    async def Embed(self, request, context):  # noqa: N802
        self.seen.append(request)
        await self._obey(request.items[0].text, context)
        values, width = array.array("f"), self.card.encoder.dimensions
        for index, item in enumerate(request.items):
            values.extend([len(item.text), index, *[0.5] * (width - 2)])
        return pb.EmbedReply(vectors=values.tobytes(), dimensions=width, prompt_tokens=7)

    async def Rerank(self, request, context):  # noqa: N802
        self.seen.append(request)
        await self._obey(request.query, context)
        scores = [len(document) / 100 for document in request.documents]
        if request.query == "[none]":
            scores[0] = math.nan
        return pb.RerankReply(scores=scores, prompt_tokens=9)

    async def _obey(self, text: str, context) -> None:
        word = _WORD.match(text)
        if word is None:
            return
        if word[1] == "hold":
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        if word[1] == "fail":
            await abort(context, ServiceError(word[2], "as the script says"))
        if word[1] == "die" and self.lives:
            self.lives -= 1
            self._dying = asyncio.create_task(self.stop())
            await asyncio.sleep(60)
