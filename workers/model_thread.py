"""A lane: calls that wait for one model, and the one thread that runs it.

For every kind of worker that answers each call by itself. The lane owns the thread, the bound on
calls, their order (class, then arrival) and their end; the model decides what one step does, and
for which of the calls that wait. Between two steps the lane looks at what has arrived, and drops
calls whose client is gone or whose time is up. A step that raises ends the lane: MLX's state is
unknown then, and a new process is the only safe place to go on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from shared.errors import ServiceError, busy
from shared.pb import worker_pb2
from workers import runtime
from workers.job import Job

log = logging.getLogger(__name__)

J = TypeVar("J", bound="Job[Any]")
M = TypeVar("M", bound="Model[Any]")

_IDLE_WAIT_S = 0.5
# How long the lane waits for as many calls as the last step has answered: a part of that step, and
# a limit. Their clients tend to come back together, but not in the same millisecond, and a step
# for the first of them alone would make the others wait for the one after.
_LINGER_PART = 0.2
_LINGER_S = 0.05


class Model(Protocol[J]):
    """What a lane runs.

    Attributes:
        card: what it is; its `queue_limit` is the lane's own.
    """

    card: worker_pb2.ModelCard

    def step(self, jobs: Sequence[J]) -> None:
        """Do one bounded piece of work: serve some jobs, finish or fail those that are done.

        Args:
            jobs: those that wait, at least one, first served first. It need not do what they
                ask in that order, nor for one at a time.

        Raises:
            Exception: the model can't go on.
        """


class ThreadObserver(Protocol):
    """Who hears from the lane. Every method is called on its thread."""

    def ready(self) -> None:
        """The model is loaded; calls are taken."""

    def worked(self) -> None:
        """The load has changed."""

    def ended(self, failure: BaseException | None) -> None:
        """The thread is about to end; with what ended it, unless it was told to stop."""


class ModelThread(Generic[M, J]):
    """Runs calls on one model.

    Args:
        load: makes the model; called on the lane's thread.
        limit: calls that may be here in each queue, those being prepared included.

    Attributes:
        listener: set before the thread is started.
        steps: number of steps done.
        counters: since the start; they only grow.
    """

    listener: ThreadObserver

    def __init__(self, load: Callable[[], M], limit: int) -> None:
        self._load = load
        self._limit = max(1, limit)
        self._held: Counter[str] = Counter()
        self._inbox: SimpleQueue[J | None] = SimpleQueue()
        self._jobs: list[J] = []
        self._model: M | None = None
        self._alive_s = time.monotonic()
        self._has_worked = False
        self._worked_s = 0.0
        self._answered = 0
        self._linger_until_s = 0.0
        self.steps = 0
        self.counters = worker_pb2.Counters()
        self.thread = threading.Thread(target=self._run, name="lane", daemon=True)

    # ------------------------------------------------------ on the event loop

    @property
    def model(self) -> M:
        """The loaded model.

        Raises:
            ServiceError: `model_loading`.
        """
        if self._model is None:
            raise ServiceError("model_loading", "The model is still loading.", retry_after_s=1.0)
        return self._model

    @contextmanager
    def admit(self, queue: str = "") -> Iterator[M]:
        """Hold a place in the lane while a call is prepared and run.

        Args:
            queue: of calls that don't take each other's places.

        Raises:
            ServiceError: every place is taken, or the model is still loading.
        """
        model = self.model
        if self._held[queue] >= self._limit:
            raise busy()
        self._held[queue] += 1
        try:
            yield model
        finally:
            self._held[queue] -= 1

    async def run(self, job: J) -> Any:
        """Return what the model makes of a job; cancelling the caller takes it out.

        Raises:
            ServiceError: it failed, or its time was up.
        """
        self._inbox.put(job)
        try:
            return await job.answer
        finally:
            job.ended = True

    def stop(self) -> None:
        """End the thread after the step that runs."""
        self._inbox.put(None)

    def step_age_s(self) -> float | None:
        """Return the seconds since the lane last did something; None while loading."""
        return time.monotonic() - self._alive_s if self._model is not None else None

    def load(self) -> tuple[int, int]:
        """Return the number of calls that the model has begun, and of those that wait."""
        begun = sum(job.begun for job in list(self._jobs))
        return begun, max(0, self._held.total() - begun)

    # ------------------------------------------------------ on the own thread

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            self._model = self._load()
            self._alive_s = time.monotonic()
            self.listener.ready()
            while self._receive():
                self._step(self._model)
        # The rim of the thread: whatever happened, nobody may be left waiting.
        except BaseException as caught:
            failure = caught
            if self._model is not None:
                log.exception("step %d failed", self.steps + 1)
                self._fail_all()
        self.listener.ended(failure)

    def _receive(self) -> bool:
        """Take in what has arrived; wait when there is nothing to do. False: told to stop."""
        wait = not self._jobs
        while True:
            try:
                job = self._inbox.get(wait, _IDLE_WAIT_S if wait else None)
            except Empty:
                self._alive_s = now_s = time.monotonic()
                if self._has_worked and wait and now_s > self._worked_s + runtime.RELEASE_AFTER_S:
                    self._has_worked = False
                    runtime.release_memory()
                return True
            if job is None:
                return False
            self._jobs.append(job)
            wait = False
            if self._inbox.empty():
                self._linger()

    def _linger(self) -> None:
        """Wait a moment for calls that the last step may have called forth."""
        while len(self._jobs) < self._answered and self._inbox.empty():
            left_s = self._linger_until_s - time.monotonic()
            if left_s <= 0:
                return
            time.sleep(min(left_s, 0.001))

    def _step(self, model: M) -> None:
        now_s = time.monotonic()
        for job in self._jobs:
            if not job.ended and now_s > job.deadline_s:
                job.fail(ServiceError("timeout", "The request took too long."))
        if waiting := sorted(self._open(), key=lambda job: job.rank(now_s)):
            self._has_worked = True
            model.step(waiting)
            self.steps += 1
            self._worked_s = ended_s = time.monotonic()
            self._answered = sum(job.finished for job in waiting)
            self._linger_until_s = ended_s + min(_LINGER_S, _LINGER_PART * (ended_s - now_s))
        if any(job.ended for job in self._jobs):
            self._count()
            self._jobs = self._open()
            self.listener.worked()
        self._alive_s = time.monotonic()

    def _count(self) -> None:
        """Count the jobs that have ended."""
        counters = self.counters
        for job in self._jobs:
            if job.ended:
                counters.sequences_started += job.begun
                counters.failed += job.failed
                counters.sequences_completed += job.finished
                counters.cancelled += not (job.failed or job.finished)

    def _open(self) -> list[J]:
        return [job for job in self._jobs if not job.ended]

    def _fail_all(self) -> None:
        while not self._inbox.empty():
            if (job := self._inbox.get()) is not None:
                self._jobs.append(job)
        for job in self._open():
            job.fail(ServiceError("engine_failed", "The model failed while it was computing."))
