"""The path of every text request: admit, submit, yield events, resume after a loss.

Owns the order of those steps and the time limit of the whole request; the rules of resuming are
resume.py's. All dialects, streaming or not, consume the same items. Runs in the handler's task:
when that is cancelled because the client disconnected, the worker is told at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import logging
from collections.abc import AsyncGenerator, Sequence

from gateway.fleet.admission import Ticket
from gateway.fleet.mailbox import Mailbox
from gateway.fleet.replica import Replica
from gateway.fleet.text_worker import TextWorker
from gateway.generation.fold import Item
from gateway.generation.resume import History
from gateway.metrics import Metrics
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb

log = logging.getLogger(__name__)


class Run:
    """A running request, which `fail` can end in every state.

    Args:
        deadline_s: on the event loop's clock.
    """

    def __init__(self, request: pb.GenerateRequest, worker: TextWorker, deadline_s: float) -> None:
        self.request = request
        self.worker = worker
        self.history = History()
        self.failure: ServiceError | None = None
        self._deadline_s = deadline_s
        self._ticket: Ticket | None = None
        self._now_s = asyncio.get_running_loop().time

    def fail(self, error: ServiceError) -> None:
        """Fail the request, queued or running."""
        self.failure = error
        if self._ticket is not None:
            self._ticket.fail(error)

    async def serve(self) -> AsyncGenerator[Sequence[Item]]:
        """Yield the items of the request over all its attempts."""
        self.worker.require_ready()
        admission, history = self.worker.admission, self.history
        while True:
            ticket = self._ticket = Ticket(
                self.request, resumed=self.request.attempt > 0, isolate=history.isolate
            )
            admission.enqueue(ticket)
            try:
                replica = await admission.wait(ticket)
                if self.failure is not None:
                    raise self.failure
                box = ticket.box = self._make_box(ticket)
                try:
                    async with contextlib.aclosing(self._attempt(replica, box)) as batches:
                        async for batch in batches:
                            yield batch
                    return
                except ServiceError as failure:
                    self._absorb(box, replica.explain_loss(failure))
            finally:
                admission.release(ticket)

    async def _attempt(self, replica: Replica, box: Mailbox) -> AsyncGenerator[Sequence[Item]]:
        """Yield the items of one attempt that earlier attempts have not yielded."""
        history = self.history
        try:
            accepted = await self._submit(replica, box)
            if history.accepted is None:
                history.accepted = accepted
                yield [accepted]
            while not box.drained:
                yield history.amend(await box.take())
        finally:
            replica.client.close_box(box)

    async def _submit(self, replica: Replica, box: Mailbox) -> pb.Accepted:
        left_s = self._deadline_s - self._now_s()
        self.request.timeout_ms = max(int(left_s * 1000), 1)
        return await replica.client.submit(self.request, box, left_s)

    def _make_box(self, ticket: Ticket) -> Mailbox:
        """Turn the request into its next attempt; return the mailbox for it."""
        self.history.prepare(self.request)
        admission = self.worker.admission
        return Mailbox(
            self.request.key,
            self.request.attempt,
            self._now_s(),
            on_end=functools.partial(admission.release, ticket),
            on_first_token=admission.pump,
        )

    def _absorb(self, box: Mailbox, failure: ServiceError) -> None:
        """Record a failed attempt.

        Raises:
            ServiceError: there will be no other attempt.
        """
        if self.failure is not None:
            raise self.failure
        log.info("%s: attempt %d: %s", self.request.request_id, box.attempt, failure.code)
        self.history.absorb(box, failure, self._now_s())


class Generator:
    """Runs requests.

    Args:
        timeout_s: time limit of a request.
        metrics: counts every request that ran to its end.
    """

    def __init__(self, timeout_s: float, metrics: Metrics) -> None:
        self._timeout_s = timeout_s
        self._metrics = metrics
        self._keys = itertools.count(1)
        self._runs: set[Run] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    async def run(
        self, request: pb.GenerateRequest, worker: TextWorker, *, counted: bool = True
    ) -> AsyncGenerator[Sequence[Item]]:
        """Yield the items of a request in batches: Accepted first, Finished last.

        Args:
            counted: whether the reference's metrics count the request.

        Raises:
            ServiceError: the request was refused or failed.
        """
        loop = asyncio.get_running_loop()
        request.key = next(self._keys)
        run = Run(request, worker, loop.time() + self._timeout_s)
        timer = loop.call_later(self._timeout_s, run.fail, _timeout(self._timeout_s))
        self._runs.add(run)
        self._idle.clear()
        try:
            async with contextlib.aclosing(run.serve()) as batches:
                batch: Sequence[Item] = ()
                async for batch in batches:
                    yield batch
            # A caller that asks for more after the last batch has consumed it.
            if batch and isinstance(last := batch[-1], pb.Event):
                self._metrics.note_finished(last.finished, counted=counted)
        finally:
            timer.cancel()
            self._runs.discard(run)
            if not self._runs:
                self._idle.set()

    def cancel(self, request_id: str) -> bool:
        """Cancel the running request with this id; return whether there was one."""
        found = [run for run in self._runs if run.request.request_id == request_id]
        for run in found:
            run.fail(ServiceError("cancelled", "The request was cancelled."))
        return bool(found)

    def fail_all(self, error: ServiceError) -> None:
        for run in list(self._runs):
            run.fail(error)

    async def drain(self, timeout_s: float) -> None:
        """Wait until no request runs, at most for `timeout_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()


def _timeout(timeout_s: float) -> ServiceError:
    return ServiceError("timeout", f"The request took longer than {timeout_s:g} s.")
