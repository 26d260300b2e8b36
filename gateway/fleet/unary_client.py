"""The gRPC client of one worker process with independent calls: embed, rerank, audio.

Owns the channel to one address, its Describe and Pulse, and the sending of calls. Knows nothing of
HTTP, of queues, or of what a call means. Runs on the gateway's event loop.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import TypeVar

import grpc.aio

from gateway.fleet.status_client import StatusClient
from gateway.fleet.worker_watch import WorkerObserver
from shared import rpc
from shared.errors import from_rpc

Q = TypeVar("Q")
A = TypeVar("A")
# One method of a stub on a channel: `lambda channel: EmbedStub(channel).Embed`.
Method = Callable[[grpc.aio.Channel], "grpc.aio.UnaryUnaryMultiCallable[Q, A]"]
StreamMethod = Callable[[grpc.aio.Channel], "grpc.aio.UnaryStreamMultiCallable[Q, A]"]


class UnaryClient:
    def __init__(self, address: str, observer: WorkerObserver) -> None:
        self.address = address
        self._channel = rpc.open_channel(address)
        self._status = StatusClient(self._channel, observer)

    async def run(self) -> None:
        """Keep card and heartbeats fresh until cancelled."""
        await self._status.run()

    async def close(self) -> None:
        await self._channel.close()

    async def call(self, method: Method[Q, A], request: Q, timeout_s: float) -> A:
        """Return a worker's reply; cancelling the caller cancels the call.

        Raises:
            ServiceError: it refused, did not reply in time (`timeout`), or can't be reached
                (`worker_unavailable`).
        """
        try:
            return await method(self._channel)(request, timeout=max(timeout_s, 0.001))
        except grpc.aio.AioRpcError as failure:
            raise from_rpc(failure) from None

    async def stream(self, method: StreamMethod[Q, A], request: Q) -> AsyncGenerator[A]:
        """Yield the messages of a streamed reply; closing the generator cancels the call.

        The caller limits the time: gRPC knows one deadline per call, and a stream may be of any
        length.

        Raises:
            ServiceError: as `call` does.
        """
        call = method(self._channel)(request)
        try:
            async for piece in call:
                yield piece
        except grpc.aio.AioRpcError as failure:
            raise from_rpc(failure) from None
        finally:
            call.cancel()
