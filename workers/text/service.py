"""The Text service of a worker.

Owns the RPCs and the render thread. Runs on the event loop; templates and tokenization run on the
render thread, requests on the engine thread, to which commands are queued.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from shared.errors import ServiceError
from shared.pb import text_pb2 as pb
from shared.pb import text_pb2_grpc
from workers.error_boundary import RpcContext, error_boundary
from workers.text.engine.command import CancelCommand, EngineCall, SubmitCommand
from workers.text.engine.loop import Engine
from workers.text.engine.outbox import Outbox
from workers.text.engine.sequence import Sequence
from workers.text.prompt.prompter import Prompter
from workers.text.ready import Ready
from workers.worker_service import WorkerService

log = logging.getLogger(__name__)

# Calls that wait for the render thread. The gateway's own queue limit is far below.
_MAX_RENDERING = 256
# Any step that does not hang is shorter.
_ENGINE_CALL_S = 60.0

T = TypeVar("T")


class TextService(text_pb2_grpc.TextServicer):
    """Serves one text model.

    Attributes:
        ready: set by the process once the model is loaded.
    """

    def __init__(self, engine: Engine, worker: WorkerService) -> None:
        self.ready: Ready | None = None
        self.outbox = Outbox(lambda gateway_id: engine.put(CancelCommand(gateway_id)))
        self._engine = engine
        self._worker = worker
        self._render = ThreadPoolExecutor(max_workers=1, thread_name_prefix="render")
        self._rendering = 0

    def require_ready(self) -> Ready:
        """Return what serves requests.

        Raises:
            ServiceError: `model_loading`.
        """
        if self.ready is None:
            raise ServiceError("model_loading", "The model is still loading.", retry_after_s=1.0)
        return self.ready

    # ------------------------------------------------------------- generation

    @error_boundary
    async def Submit(self, request: pb.GenerateRequest, context: RpcContext) -> pb.Accepted:
        ready = self.require_ready()
        if self._worker.draining:
            raise ServiceError("worker_unavailable", "The worker is stopping. Try again.")
        self._check_watched(request.gateway_id)
        sequence, accepted = await self._off_loop(_take_in, ready, request)
        # If the Watch has ended meanwhile, no gateway would cancel this request.
        self._check_watched(request.gateway_id)
        self._engine.put(SubmitCommand(sequence))
        accepted.step = self._engine.snapshot.step
        return accepted

    @error_boundary
    async def Cancel(self, request: pb.CancelRequest, context: RpcContext) -> pb.CancelReply:
        self._engine.put(CancelCommand(request.gateway_id, request.key))
        return pb.CancelReply()

    async def Watch(
        self, request: pb.WatchRequest, context: RpcContext
    ) -> AsyncIterator[pb.StepFrame]:
        mail = self.outbox.open(request.gateway_id)
        try:
            # The first frame tells the gateway that it may submit.
            yield pb.StepFrame(step=self._engine.snapshot.step)
            while not mail.closed:
                frame = await mail.take()
                if frame.sequences:
                    yield frame
        finally:
            self.outbox.close(mail, "ended")

    # ----------------------------------------------------------------- tokens

    @error_boundary
    async def Tokenize(self, request: pb.TokenizeRequest, context: RpcContext) -> pb.TokenizeReply:
        return await self._off_loop(_tokenize, self.require_ready(), request)

    @error_boundary
    async def Detokenize(
        self, request: pb.DetokenizeRequest, context: RpcContext
    ) -> pb.DetokenizeReply:
        vocabulary = self.require_ready().model.vocabulary
        for token in request.ids:
            if not 0 <= token < len(vocabulary):
                size = len(vocabulary)
                raise ServiceError(
                    "out_of_vocabulary",
                    f"token id {token} is out of vocabulary range (vocab_size {size})",
                    "tokens",
                )
        return pb.DetokenizeReply(text=await self._off_loop(vocabulary.decode, request.ids))

    @error_boundary
    async def Render(self, request: pb.GenerateRequest, context: RpcContext) -> pb.RenderReply:
        return await self._off_loop(_render, self.require_ready().prompter, request)

    # ------------------------------------------------------------------ state

    @error_boundary
    async def CacheStats(
        self, request: pb.CacheStatsRequest, context: RpcContext
    ) -> pb.CacheStatsReply:
        self.require_ready()
        return self._engine.snapshot.cache

    @error_boundary
    async def CacheReset(
        self, request: pb.CacheResetRequest, context: RpcContext
    ) -> pb.CacheResetReply:
        cache = self.require_ready().cache
        if cache is None:
            return pb.CacheResetReply()
        freed_bytes, freed_entries = await self._on_engine(cache.reset)
        return pb.CacheResetReply(freed_bytes=freed_bytes, freed_entries=freed_entries)

    @error_boundary
    async def Slots(self, request: pb.SlotsRequest, context: RpcContext) -> pb.SlotsReply:
        slots = [pb.Slot(state=pb.Slot.STATE_IDLE)] * self.require_ready().card.max_batch_size
        snapshot = self._engine.snapshot
        for index, request_id, prompt_tokens, completion_tokens, is_decoding in snapshot.running:
            slots[index] = pb.Slot(
                state=pb.Slot.STATE_DECODING if is_decoding else pb.Slot.STATE_PREFILL,
                request_id=request_id,
                prompt_tokens=prompt_tokens,
                completion_tokens=completion_tokens,
            )
        slots += [
            pb.Slot(state=pb.Slot.STATE_QUEUED, request_id=request_id)
            for request_id in snapshot.waiting
        ]
        reply = pb.SlotsReply(slots=slots)
        for number, slot in enumerate(reply.slots):
            slot.id = number
        return reply

    # ---------------------------------------------------------------- internals

    def _check_watched(self, gateway_id: str) -> None:
        if not self.outbox.watched(gateway_id):
            raise ServiceError("watch_missing", "Open a Watch before Submit.")

    async def _off_loop(self, work: Callable[..., T], *args: Any) -> T:
        """Call a function on the render thread.

        Raises:
            ServiceError: too many calls wait for it.
        """
        if self._rendering >= _MAX_RENDERING:
            raise ServiceError("server_busy", "Too many prompts are waiting.", retry_after_s=1.0)
        self._rendering += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._render, work, *args)
        finally:
            self._rendering -= 1

    async def _on_engine(self, work: Callable[[], T]) -> T:
        """Call a function on the engine thread, between two steps."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def done(result: object) -> None:
            loop.call_soon_threadsafe(_settle, future, result)

        self._engine.put(EngineCall(work, done))
        async with asyncio.timeout(_ENGINE_CALL_S):
            return await future


def _settle(future: asyncio.Future[Any], result: object) -> None:
    if not future.done():
        future.set_result(result)


def _take_in(ready: Ready, request: pb.GenerateRequest) -> tuple[Sequence, pb.Accepted]:
    sequence = ready.intake.make_sequence(request)
    accepted = pb.Accepted(
        prompt_tokens=len(sequence.prompt),
        max_tokens=sequence.max_tokens,
        sampling=sequence.request.sampling,
        wanted_tokens=ready.intake.wanted_tokens(request),
        without_cache=ready.cache is None,
    )
    if request.WhichOneof("prompt") not in ("chat", "text"):
        accepted.prompt = ready.model.vocabulary.decode(sequence.prompt)
    return sequence, accepted


def _render(prompter: Prompter, request: pb.GenerateRequest) -> pb.RenderReply:
    prompt = prompter.render(request)
    if request.WhichOneof("prompt") in ("chat", "text"):
        ids = prompter.tokenize(request, prompt)
    else:
        ids = prompter.encode(request)
    return pb.RenderReply(prompt=prompt, prompt_tokens=len(ids))


def _tokenize(ready: Ready, request: pb.TokenizeRequest) -> pb.TokenizeReply:
    ids = ready.prompter.encode_pieces(
        request.pieces, add_special=request.add_special, parse_special=request.parse_special
    )
    pieces = ready.model.vocabulary.pieces
    for token in ids:
        if token >= len(pieces):
            raise ServiceError(
                "invalid_request",
                f"Tokenization error: token id {token} is out of vocabulary range "
                f"(vocab_size {len(pieces)})",
                "content",
            )
    texts = [pieces[token] for token in ids] if request.with_pieces else []
    return pb.TokenizeReply(ids=ids, pieces=texts)
