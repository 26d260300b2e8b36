"""A text worker without a model: a real gRPC server that plays scripts.

It keeps the protocol of text.proto and worker.proto to the letter: Watch before Submit, one Watch
per gateway id, attempts, Cancel, a heartbeat each second, one frame per step, forced ids replayed
in silence, isolation. What a request gives is in script.py. Runs inside a test's event loop, or as
a process:

    python -m tests.fakes.text_worker --address unix:PATH
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator

from shared import rpc
from shared.errors import ServiceError, abort, to_message
from shared.pb import text_pb2 as pb
from shared.pb import text_pb2_grpc, worker_pb2, worker_pb2_grpc
from tests.fakes.script import Script, Token, prompt_text


class Sequence:
    """One request in the fake's queue or batch."""

    def __init__(self, request: pb.GenerateRequest) -> None:
        self.request = request
        self.script = Script(request)
        self.prefill_left = self.script.prefill_steps
        self.position = len(request.forced_ids)
        self.tokens: Iterator[Token] = itertools.islice(self.script.tokens(), self.position, None)
        self.started = False
        # Until its first own token, nothing else is in the batch.
        self.isolated = request.isolate

    @property
    def rank(self) -> tuple[int, int]:
        return (self.request.priority or 2, self.request.arrival_ns)


class FakeTextWorker(text_pb2_grpc.TextServicer, worker_pb2_grpc.WorkerServicer):
    """The fake.

    Args:
        address: where to listen.
        slots: rows of the batch.
        step_s: time one step takes.
        die: what dying means; in a test's own process, closing everything without a word.
    """

    def __init__(
        self,
        address: str,
        *,
        name: str = "fake",
        slots: int = 4,
        step_s: float = 0.002,
        die: Callable[[], None] | None = None,
    ) -> None:
        self.address = address
        self.slots = slots
        self.step_s = step_s
        self.card = worker_pb2.ModelCard(
            name=name,
            kind="text",
            context_tokens=4096,
            created_unix_s=1_700_000_000,
            slots=slots,
            max_batch_size=slots,
            tool_call_format="hermes",
        )
        self.loading = False
        self.submitted: list[pb.GenerateRequest] = []
        self.cancelled: list[int] = []
        self.watched: list[str] = []
        self.counters = worker_pb2.Counters()
        self.step_age_ms = 0
        self.step_timeout_ms = 120_000
        self._die = die or self._close_without_a_word
        self._instance = ""
        self._server: rpc.WorkerServer | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._outboxes: dict[str, asyncio.Queue[pb.StepFrame | None]] = {}
        self._pulses: set[asyncio.Queue[worker_pb2.Heartbeat | None]] = set()
        self._queue: list[Sequence] = []
        self._batch: list[Sequence] = []
        # Set once there is a sequence to run: an idle engine takes no time from the tests.
        self._work = asyncio.Event()
        self._step = 0
        self._stalled = False
        self._dying: asyncio.Task[None] | None = None

    # ------------------------------------------------------------ life

    async def start(self) -> None:
        """Listen, as a new process would: a new instance without requests."""
        if self._dying is not None:
            await self._dying
            self._dying = None
        self._instance = secrets.token_hex(4)
        self.counters = worker_pb2.Counters()
        self._outboxes, self._pulses, self._queue, self._batch = {}, set(), [], []
        self._step, self._stalled, self.step_age_ms = 0, False, 0
        self._server = rpc.WorkerServer(self.address, "mlxcel.v1.Worker", "mlxcel.v1.Text")
        text_pb2_grpc.add_TextServicer_to_server(self, self._server.server)
        worker_pb2_grpc.add_WorkerServicer_to_server(self, self._server.server)
        await self._server.start()
        await self._server.set_ready(ready=not self.loading)
        self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(self._beat())]

    async def stop(self) -> None:
        """Exit at once, with requests running."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(0)

    async def restart(self) -> None:
        """Exit and start again."""
        await self.stop()
        await self.start()

    @property
    def active(self) -> int:
        """Sequences in the batch."""
        return len(self._batch)

    @property
    def queued(self) -> int:
        """Sequences that wait."""
        return len(self._queue)

    @property
    def listening(self) -> bool:
        """Whether it is running."""
        return self._server is not None and not self._dying

    def forget_watches(self) -> None:
        """Drop every Watch silently, as a half-open connection would."""
        self._outboxes = {}

    def end_pulses(self) -> None:
        """End every Pulse although the process runs on."""
        for pulse in self._pulses:
            pulse.put_nowait(None)

    def repeat_frame_of_attempt(self, attempt: int) -> None:
        """Send a token of an attempt that has ended."""
        for sequence in self._batch:
            frame = pb.StepFrame(step=self._step)
            out = frame.sequences.add(key=sequence.request.key, attempt=attempt, token_ids=[1])
            out.events.add(delta=pb.Delta(text="stale"))
            self._send(sequence.request.gateway_id, frame)

    def _close_without_a_word(self) -> None:
        # The task that calls this is among those that stop() cancels.
        self._dying = asyncio.get_running_loop().create_task(self.stop())
        self._stalled = True

    def _hang(self) -> None:
        """Take longer than the limit on a step, and be killed for it."""
        self._stalled = True
        self.step_age_ms = self.step_timeout_ms + 1
        self.send_heartbeats()
        self._dying = asyncio.get_running_loop().create_task(self._be_killed())

    async def _be_killed(self) -> None:
        await asyncio.sleep(0.05)
        await self.stop()

    # ------------------------------------------------------------ RPCs

    async def Describe(self, request, context):  # noqa: N802
        if self.loading:
            await abort(context, ServiceError("model_loading", "Loading model"))
        return self.card

    async def Pulse(self, request, context) -> AsyncIterator[worker_pb2.Heartbeat]:  # noqa: N802
        pulse: asyncio.Queue[worker_pb2.Heartbeat | None] = asyncio.Queue()
        pulse.put_nowait(self._heartbeat())
        self._pulses.add(pulse)
        try:
            while (heartbeat := await pulse.get()) is not None:
                yield heartbeat
        finally:
            self._pulses.discard(pulse)

    async def Watch(self, request, context) -> AsyncIterator[pb.StepFrame]:  # noqa: N802
        self.watched.append(request.gateway_id)
        previous = self._outboxes.get(request.gateway_id)
        if previous is not None:
            previous.put_nowait(None)
            self._drop(request.gateway_id)
        outbox: asyncio.Queue[pb.StepFrame | None] = asyncio.Queue()
        self._outboxes[request.gateway_id] = outbox
        outbox.put_nowait(pb.StepFrame(step=self._step))
        try:
            while (frame := await outbox.get()) is not None:
                yield frame
        finally:
            if self._outboxes.get(request.gateway_id) is outbox:
                del self._outboxes[request.gateway_id]
                self._drop(request.gateway_id)

    async def Submit(self, request, context):  # noqa: N802
        self.submitted.append(request)
        if request.gateway_id not in self._outboxes:
            await abort(context, ServiceError("watch_missing", "There is no Watch."))
        sequence = Sequence(request)
        directions = sequence.script.directions
        if "deadly" in directions:
            self._die()
            await asyncio.sleep(1.0)
        if "accept" in directions:
            await asyncio.sleep(float(directions["accept"]))
        if code := directions.get("refuse"):
            await abort(context, ServiceError(code, "Refused as the script says."))
        # Nobody reads an earlier attempt of the same request.
        self._drop(request.gateway_id, request.key)
        self._queue.append(sequence)
        self._queue.sort(key=lambda sequence: sequence.rank)
        self._work.set()
        return pb.Accepted(
            prompt_tokens=sequence.script.prompt_tokens,
            max_tokens=sequence.script.length,
            step=self._step,
            prompt="" if request.HasField("text") else prompt_text(request),
            sampling=request.sampling,
            wanted_tokens=min(request.max_tokens, 2**31 - 1),
        )

    async def Cancel(self, request, context):  # noqa: N802
        self.cancelled.append(request.key)
        self._drop(request.gateway_id, request.key)
        return pb.CancelReply()

    async def Tokenize(self, request, context):  # noqa: N802
        ids = [piece.id or len(piece.text) for piece in request.pieces]
        pieces = [str(number).encode() for number in ids] if request.with_pieces else []
        return pb.TokenizeReply(ids=ids, pieces=pieces)

    async def Detokenize(self, request, context):  # noqa: N802
        return pb.DetokenizeReply(text=" ".join(map(str, request.ids)))

    async def Render(self, request, context):  # noqa: N802
        script = Script(request)
        if code := script.directions.get("refuse"):
            await abort(context, ServiceError(code, "Refused as the script says."))
        return pb.RenderReply(prompt=prompt_text(request), prompt_tokens=script.prompt_tokens)

    async def CacheStats(self, request, context):  # noqa: N802
        return pb.CacheStatsReply(enabled=True, entries=2, bytes=100, hits=3, lookups=4)

    async def CacheReset(self, request, context):  # noqa: N802
        return pb.CacheResetReply(freed_bytes=100, freed_entries=2)

    async def Slots(self, request, context):  # noqa: N802
        reply = pb.SlotsReply()
        for sequence in self._batch:
            reply.slots.add(
                id=len(reply.slots),
                state=pb.Slot.STATE_PREFILL if sequence.prefill_left else pb.Slot.STATE_DECODING,
                request_id=sequence.request.request_id,
            )
        while len(reply.slots) < self.slots:
            reply.slots.add(id=len(reply.slots), state=pb.Slot.STATE_IDLE)
        for _ in self._queue:
            reply.slots.add(id=len(reply.slots), state=pb.Slot.STATE_QUEUED)
        return reply

    # ------------------------------------------------------------ engine

    async def _run(self) -> None:
        while True:
            if not self._queue and not self._batch:
                self._work.clear()
                await self._work.wait()
            await asyncio.sleep(self.step_s)
            self._admit()
            if self._batch and not self._stalled:
                self._take_step()

    def _admit(self) -> None:
        while self._queue and len(self._batch) < self.slots:
            if any(sequence.isolated for sequence in self._batch):
                return
            if self._queue[0].isolated and self._batch:
                return
            self._batch.append(self._queue.pop(0))

    def _take_step(self) -> None:
        for sequence in self._batch:
            if sequence.prefill_left:
                continue
            script, position = sequence.script, sequence.position
            if script.due("die", position) or script.due("poison", position):
                self._die()
                return
            if script.due("hang", position):
                self._hang()
                return
            if script.due("raise", position):
                self._fail_batch()
                return
            if script.due("stall", position):
                self._stalled = True
                return
        self._step += 1
        frames: dict[str, pb.StepFrame] = {}
        for sequence in list(self._batch):
            frame = frames.setdefault(sequence.request.gateway_id, pb.StepFrame(step=self._step))
            self._advance(sequence, frame.sequences.add())
        for gateway_id, frame in frames.items():
            self._send(gateway_id, frame)

    def _advance(self, sequence: Sequence, out: pb.SequenceFrame) -> None:
        out.key, out.attempt = sequence.request.key, sequence.request.attempt
        if not sequence.started:
            sequence.started = True
            self.counters.sequences_started += 1
            out.events.add(started=pb.Started(step=self._step))
        if sequence.prefill_left:
            sequence.prefill_left -= 1
            return
        token = next(sequence.tokens)
        sequence.position += 1
        sequence.isolated = False
        self.counters.decode_tokens += 1
        out.token_ids.append(token.id)
        out.events.extend(token.events)
        end = token.events[-1].WhichOneof("event") if token.events else None
        if end in ("finished", "failed"):
            self.counters.sequences_completed += end == "finished"
            self._batch.remove(sequence)

    def _fail_batch(self) -> None:
        """Behave like a worker after an exception in a step: fail all requests, then restart."""
        error = to_message(ServiceError("engine_failed", "The model failed in a step."))
        for sequence in [*self._batch, *self._queue]:
            frame = pb.StepFrame(step=self._step)
            out = frame.sequences.add(key=sequence.request.key, attempt=sequence.request.attempt)
            out.events.add(failed=pb.Failed(error=error))
            self._send(sequence.request.gateway_id, frame)
        self._batch, self._queue = [], []

    def _send(self, gateway_id: str, frame: pb.StepFrame) -> None:
        if (outbox := self._outboxes.get(gateway_id)) is not None:
            outbox.put_nowait(frame)

    def _drop(self, gateway_id: str, key: int | None = None) -> None:
        def stays(sequence: Sequence) -> bool:
            request = sequence.request
            return request.gateway_id != gateway_id or key not in (None, request.key)

        self._queue = [sequence for sequence in self._queue if stays(sequence)]
        self._batch = [sequence for sequence in self._batch if stays(sequence)]

    # ------------------------------------------------------------ heartbeat

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self.send_heartbeats()

    def send_heartbeats(self) -> None:
        """Send a heartbeat to every gateway now."""
        for pulse in self._pulses:
            pulse.put_nowait(self._heartbeat())

    def _heartbeat(self) -> worker_pb2.Heartbeat:
        return worker_pb2.Heartbeat(
            instance=self._instance,
            step=self._step,
            step_age_ms=self.step_age_ms,
            step_timeout_ms=self.step_timeout_ms,
            slots_total=self.slots,
            slots_active=len(self._batch),
            queue_depth=len(self._queue),
            counters=self.counters,
        )


async def _serve(arguments: argparse.Namespace) -> None:
    worker = FakeTextWorker(
        arguments.address,
        name=arguments.name,
        slots=arguments.slots,
        step_s=arguments.step_s,
        die=lambda: os._exit(9),
    )
    worker.card.created_unix_s = int(time.time())
    await worker.start()
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", required=True)
    parser.add_argument("--name", default="fake")
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--step-s", type=float, default=0.002)
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
