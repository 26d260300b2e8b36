"""The one path of every text request: admit, submit, yield what comes.

Owns the order of those steps and the limit on the whole request's time. Every dialect and both
modes, streaming or not, consume the same items. Runs in the handler's task: when that is
cancelled because the client is gone, the worker is told at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
from collections.abc import AsyncGenerator, Sequence

from gateway.fold import Item
from gateway.mailbox import Mailbox
from gateway.registry import Worker
from gateway.replica import Replica, Ticket
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb


class Run:
    """A request while it is being served. Whatever it waits on can be failed from outside."""

    def __init__(self, request: pb.GenerateRequest, worker: Worker) -> None:
        self.request = request
        self.worker = worker
        self.ticket: Ticket | None = None
        self._failure: ServiceError | None = None

    def fail(self, error: ServiceError) -> None:
        """End the request with an error, wherever it is."""
        self._failure = error
        if self.ticket is not None:
            self.ticket.fail(error)
            if self.ticket.box is not None:
                self.ticket.box.fail(error)


class Generator:
    """Runs requests.

    Args:
        timeout_s: longest time one request may take.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._keys = itertools.count(1)
        self._runs: set[Run] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    async def run(
        self, request: pb.GenerateRequest, worker: Worker
    ) -> AsyncGenerator[Sequence[Item]]:
        """Yield the items of a request in batches: first its Accepted, last its Finished.

        Raises:
            ServiceError: it was refused, or has failed.
        """
        loop = asyncio.get_running_loop()
        run = Run(request, worker)
        request.key = next(self._keys)
        deadline_s = loop.time() + self._timeout_s
        timer = loop.call_at(deadline_s, run.fail, _timeout(self._timeout_s))
        self._runs.add(run)
        self._idle.clear()
        try:
            async with contextlib.aclosing(_attempt(run, deadline_s)) as batches:
                async for batch in batches:
                    yield batch
        finally:
            timer.cancel()
            self._runs.discard(run)
            if not self._runs:
                self._idle.set()

    async def drain(self, timeout_s: float) -> None:
        """Wait until no request runs, but not for ever."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()

    def fail_all(self, error: ServiceError) -> None:
        """End every running request with an error."""
        for run in list(self._runs):
            run.fail(error)


async def _attempt(run: Run, deadline_s: float) -> AsyncGenerator[Sequence[Item]]:
    """Yield the items of one submission."""
    run.worker.require_ready()
    request, admission = run.request, run.worker.admission
    ticket = run.ticket = Ticket(request.priority, request.arrival_ns)
    admission.enqueue(ticket)
    try:
        replica = await admission.wait(ticket)
        request.attempt += 1
        release = functools.partial(admission.release, ticket)
        box = ticket.box = Mailbox(request.key, request.attempt, release)
        replica.client.open(box)
        try:
            yield [await _submit(replica, request, deadline_s)]
            while not (batch := await box.take())[-1].HasField("finished"):
                yield batch
            yield batch
        finally:
            replica.client.close_box(box)
    finally:
        admission.release(ticket)


async def _submit(replica: Replica, request: pb.GenerateRequest, deadline_s: float) -> pb.Accepted:
    left_s = deadline_s - asyncio.get_running_loop().time()
    request.timeout_ms = max(int(left_s * 1000), 1)
    return await replica.client.submit(request, left_s)


def _timeout(timeout_s: float) -> ServiceError:
    return ServiceError("timeout", f"The request took longer than {timeout_s:g} s.")
