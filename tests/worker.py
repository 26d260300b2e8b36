"""A gRPC client of a text worker, without a gateway: frames, heartbeats, step numbers.

Owns one channel, one Watch and one Pulse. Runs on the event loop of the test.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc.aio

from shared.pb import common_pb2 as common
from shared.pb import text_pb2 as pb
from shared.pb import text_pb2_grpc, worker_pb2, worker_pb2_grpc
from shared.rpc import open_channel
from tests.wait import until


class WorkerLink:
    """The calls of a gateway to a worker.

    Attributes:
        beat: the last heartbeat.
        events: by request key, in order.
    """

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = text_pb2_grpc.TextStub(channel)
        self._worker = worker_pb2_grpc.WorkerStub(channel)
        self._gateway_id = secrets.token_hex(4)
        self._keys = itertools.count(1)
        self.beat = worker_pb2.Heartbeat()
        self.events: dict[int, list[pb.Event]] = {}
        self.beats = 0

    async def watch(self, opened: asyncio.Event) -> None:
        """Collect frames until cancelled."""
        call = self._stub.Watch(pb.WatchRequest(gateway_id=self._gateway_id))
        try:
            while isinstance(frame := await call.read(), pb.StepFrame):
                opened.set()
                for sequence in frame.sequences:
                    self.events[sequence.key].extend(sequence.events)
        finally:
            call.cancel()

    async def read_heartbeats(self) -> None:
        """Keep the last heartbeat until cancelled."""
        call = self._worker.Pulse(worker_pb2.PulseRequest())
        try:
            while isinstance(beat := await call.read(), worker_pb2.Heartbeat):
                self.beat = beat
                self.beats += 1
        finally:
            call.cancel()

    async def submit(
        self,
        prompt: str,
        max_tokens: int,
        priority: common.Priority.ValueType = common.PRIORITY_NORMAL,
    ) -> tuple[int, pb.Accepted]:
        """Submit a greedy request; return its key and the worker's reply."""
        key = next(self._keys)
        self.events[key] = []
        request = pb.GenerateRequest(
            gateway_id=self._gateway_id,
            key=key,
            attempt=1,
            text=prompt,
            sampling=pb.Sampling(temperature=0),
            max_tokens=max_tokens,
            priority=priority,
            arrival_ns=time.time_ns(),
        )
        return key, await self._stub.Submit(request)

    def has(self, key: int, kind: str) -> bool:
        """Return whether an event has arrived: `started`, `delta`, `finished` and so on."""
        return any(event.HasField(kind) for event in self.events[key])

    async def find(self, key: int, kind: str) -> pb.Event:
        """Wait for an event of a request and return the first of its kind."""
        await until(lambda: self.has(key, kind))
        return next(event for event in self.events[key] if event.HasField(kind))

    async def fresh_beat(self) -> worker_pb2.Heartbeat:
        """Wait for the second next heartbeat, which is current."""
        wanted = self.beats + 2
        await until(lambda: self.beats >= wanted)
        return self.beat


@asynccontextmanager
async def link(address: str) -> AsyncIterator[WorkerLink]:
    """Open a Watch at a worker, and wait for the first heartbeat."""
    async with open_channel(address) as channel:
        made = WorkerLink(channel)
        opened = asyncio.Event()
        tasks = [
            asyncio.create_task(made.watch(opened)),
            asyncio.create_task(made.read_heartbeats()),
        ]
        try:
            async with asyncio.timeout(30):
                await opened.wait()
                await until(lambda: made.beats)
            yield made
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
