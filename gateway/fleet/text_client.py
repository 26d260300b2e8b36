"""The gRPC client of one text worker process: Describe, Watch, and the RPCs of requests.

Owns the channel to one address, the one Watch this process has there, and the mailboxes of the
requests that run there. Knows nothing of HTTP, admission or resuming, and reports card, heartbeats
and losses to an observer. Runs on the gateway's event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import grpc.aio

from gateway.fleet.mailbox import Mailbox
from gateway.fleet.status_client import StatusClient
from gateway.fleet.worker_watch import LOSS_CODES, WorkerObserver
from shared import rpc
from shared.errors import ServiceError, from_rpc
from shared.pb import text_pb2 as pb
from shared.pb import text_pb2_grpc

log = logging.getLogger(__name__)
T = TypeVar("T")
WatchCall = grpc.aio.UnaryStreamCall[pb.WatchRequest, pb.StepFrame]

_CANCEL_TIMEOUT_S: Final = 5.0
# A worker that is gone ends its Watch as well; until then frames that have arrived are read.
_DRAIN_S: Final = 1.0
# Some calls are answered by the engine between two steps.
_CALL_TIMEOUT_S: Final = 30.0


class TextClient:
    """One worker address.

    Args:
        gateway_id: random per process start; names this process's Watch.
    """

    def __init__(self, address: str, gateway_id: str, observer: WorkerObserver) -> None:
        self.address = address
        self._gateway_id = gateway_id
        self._observer = observer
        self._channel = rpc.open_channel(address)
        self._stub = text_pb2_grpc.TextStub(self._channel)
        self._status = StatusClient(self._channel, observer)
        self._boxes: dict[int, Mailbox] = {}
        self._cancels: set[asyncio.Task[None]] = set()
        self._call: WatchCall | None = None

    async def run(self) -> None:
        """Keep card and heartbeats fresh and the Watch open until cancelled."""
        await self._status.run(self._watch, self._lose)

    async def close(self) -> None:
        """Send the cancels that are under way, then close the channel."""
        if self._cancels:
            await asyncio.wait(self._cancels, timeout=0.5)
        await self._channel.close()

    def close_box(self, box: Mailbox) -> None:
        """Stop delivering; cancel the request at the worker if it may still run there."""
        if self._boxes.get(box.key) is box:
            del self._boxes[box.key]
        if box.running:
            box.lose(ServiceError("cancelled", "The request was cancelled."))
            self.cancel(box.key)

    async def submit(
        self, request: pb.GenerateRequest, box: Mailbox, timeout_s: float
    ) -> pb.Accepted:
        """Queue a request whose frames are delivered to `box`, until `close_box`.

        Raises:
            ServiceError: the worker refused, can't be reached (`worker_unavailable`), or does not
                know this process's Watch (`watch_missing`), which is then reopened.
        """
        request.gateway_id = self._gateway_id
        self._boxes[box.key] = box
        try:
            accepted = await self._stub.Submit(request, timeout=max(timeout_s, 0.001))
        except grpc.aio.AioRpcError as failure:
            error = from_rpc(failure)
            if error.code != "timeout":
                # Refused: there is nothing to cancel.
                box.lose(error)
            if error.code in LOSS_CODES:
                self._observer.on_doubt()
            if error.code == "watch_missing":
                self._end_watch(self._call)
            raise error from None
        if not box.running:
            # The Watch was lost meanwhile: this attempt has no reader.
            self.cancel(box.key)
        return accepted

    async def tokenize(self, request: pb.TokenizeRequest) -> pb.TokenizeReply:
        """Return the token ids of text.

        Raises:
            ServiceError: an id among the pieces is none, or the worker can't be reached.
        """
        return await self._call_unary(self._stub.Tokenize, request)

    async def detokenize(self, request: pb.DetokenizeRequest) -> pb.DetokenizeReply:
        """Return the text of token ids.

        Raises:
            ServiceError: `out_of_vocabulary`, or the worker can't be reached.
        """
        return await self._call_unary(self._stub.Detokenize, request)

    async def render(self, request: pb.GenerateRequest) -> pb.RenderReply:
        """Return the prompt that a request becomes, and its tokens' number; nothing is run.

        Raises:
            ServiceError: the template refuses the conversation, or the worker can't be reached.
        """
        return await self._call_unary(self._stub.Render, request)

    async def cache_stats(self) -> pb.CacheStatsReply:
        """Return what the worker's prompt cache holds.

        Raises:
            ServiceError: it can't be reached, or does not answer in time.
        """
        return await self._call_unary(self._stub.CacheStats, pb.CacheStatsRequest())

    async def cache_reset(self) -> pb.CacheResetReply:
        """Empty the worker's prompt cache.

        Raises:
            ServiceError: it can't be reached, or does not answer in time.
        """
        return await self._call_unary(self._stub.CacheReset, pb.CacheResetRequest())

    async def slots(self) -> pb.SlotsReply:
        """Return what the worker's slots are doing.

        Raises:
            ServiceError: it can't be reached, or does not answer in time.
        """
        return await self._call_unary(self._stub.Slots, pb.SlotsRequest())

    async def _call_unary(self, method: Callable[..., Awaitable[T]], request: object) -> T:
        try:
            return await method(request, timeout=_CALL_TIMEOUT_S)
        except grpc.aio.AioRpcError as failure:
            raise from_rpc(failure) from None

    def cancel(self, key: int) -> None:
        """Cancel a request at the worker, without waiting for the reply."""
        task = asyncio.ensure_future(self._cancel(key))
        self._cancels.add(task)
        task.add_done_callback(self._cancels.discard)

    async def _cancel(self, key: int) -> None:
        request = pb.CancelRequest(gateway_id=self._gateway_id, key=key)
        # An unreachable worker has dropped the request already.
        with contextlib.suppress(grpc.aio.AioRpcError):
            await self._stub.Cancel(request, timeout=_CANCEL_TIMEOUT_S)

    async def _watch(self) -> None:
        """Deliver frames until the Watch ends."""
        self._call = call = self._stub.Watch(pb.WatchRequest(gateway_id=self._gateway_id))
        heartbeats: asyncio.Task[None] | None = None
        try:
            # The first frame says that the worker takes this gateway's requests. It must not be
            # ready before, and heartbeats make it ready.
            while isinstance(frame := await call.read(), pb.StepFrame):
                if heartbeats is None:
                    heartbeats = asyncio.create_task(self._status.read_heartbeats())
                    heartbeats.add_done_callback(lambda _: self._end_watch_soon(call))
                self._deliver(frame)
        except asyncio.CancelledError:
            # A call cancelled by _end_watch ends its reader the way a cancelled task does.
            if self._call is call:
                raise
        finally:
            call.cancel()
            self._call = None
            if heartbeats is not None:
                heartbeats.cancel()
                await asyncio.gather(heartbeats, return_exceptions=True)

    def _deliver(self, frame: pb.StepFrame) -> None:
        boxes, now_s = self._boxes, asyncio.get_running_loop().time()
        for sequence in frame.sequences:
            box = boxes.get(sequence.key)
            if box is None or box.attempt != sequence.attempt:
                continue
            box.put(sequence, now_s)
            if box.ended:
                self.close_box(box)
                if box.failure is not None and box.failure.code in LOSS_CODES:
                    self._observer.on_doubt()

    def _lose(self, error: ServiceError) -> None:
        """Fail every request at this worker, which drops them when its Watch is lost."""
        boxes, self._boxes = self._boxes, {}
        for box in boxes.values():
            box.lose(error)

    def _end_watch_soon(self, call: WatchCall) -> None:
        """End a Watch whose worker sends no more heartbeats, once frames that came are read."""
        asyncio.get_running_loop().call_later(_DRAIN_S, self._end_watch, call)

    def _end_watch(self, call: WatchCall | None) -> None:
        """End a Watch if it is still the current one; a new one is opened."""
        if call is not None and self._call is call:
            self._call = None
            call.cancel()
