"""The one thread that runs a model, and the calls that wait for it.

For every kind of worker that answers each call by itself. Owns the thread, the limit on calls,
their order (class, then arrival) and their end; the model decides what one step computes, and for
which of the waiting calls. Between two steps the thread receives new calls, and drops those that
are cancelled or past their deadline. A step that raises ends the thread: MLX's state is undefined
then, and only a new process is safe.
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
from workers.job import Job

log = logging.getLogger(__name__)

J = TypeVar("J", bound=Job[Any])
J_contra = TypeVar("J_contra", bound=Job[Any], contravariant=True)
M = TypeVar("M", bound="Model[Any]")

_IDLE_WAIT_S = 0.5
# How long the thread waits after a step for as many calls as that step has answered: a part of the
# step's duration, and a limit. Clients tend to send their next calls together, but not in the same
# millisecond; a step for the first of them alone would delay the others by one more step.
_LINGER_PART = 0.2
_LINGER_S = 0.05


class Model(Protocol[J_contra]):
    """What a model thread runs.

    Attributes:
        card: of the loaded model.
    """

    card: worker_pb2.ModelCard

    def step(self, jobs: Sequence[J_contra]) -> None:
        """Do one bounded piece of work: serve some jobs, finish or fail those that are done.

        Args:
            jobs: at least one, in the order of service. The model may serve them in another
                order, and several at once.

        Raises:
            Exception: the model can't continue.
        """


class ThreadObserver(Protocol):
    """Callbacks of a model thread. Every method is called on that thread."""

    def ready(self) -> None:
        """The model is loaded and accepts calls."""

    def load_changed(self) -> None: ...

    def rest(self, idle_s: float) -> None:
        """No call waits; called about twice a second, with the time since the last step."""

    def ended(self, failure: BaseException | None) -> None:
        """The thread is ending, because of a failure or after `stop`."""


class ModelThread(Generic[M, J]):
    """Runs calls on one model.

    Args:
        load: loads the model; called on the model thread.
        limit: calls admitted to each queue at most, those being prepared included.

    Attributes:
        observer: set before the thread is started.
        steps: number of steps done.
        counters: since the start of the process.
    """

    observer: ThreadObserver

    def __init__(self, load: Callable[[], M], limit: int) -> None:
        self._load = load
        self._limit = max(1, limit)
        self._admitted: Counter[str] = Counter()
        self._inbox: SimpleQueue[J | None] = SimpleQueue()
        self._jobs: list[J] = []
        self._model: M | None = None
        self._progress_s = time.monotonic()
        self._worked_s = 0.0
        self._answered = 0
        self._linger_until_s = 0.0
        self.steps = 0
        self.counters = worker_pb2.Counters()
        self.thread = threading.Thread(target=self._run, name="model", daemon=True)

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
        """Count a call against the limit while it is prepared and run.

        Args:
            queue: each has a limit of its own.

        Raises:
            ServiceError: the queue is full, or the model is still loading.
        """
        model = self.model
        if self._admitted[queue] >= self._limit:
            raise busy()
        self._admitted[queue] += 1
        try:
            yield model
        finally:
            self._admitted[queue] -= 1

    async def run(self, job: J) -> Any:
        """Run a job and return its result; cancelling the caller cancels the job.

        Raises:
            ServiceError: it failed, or its deadline has passed.
        """
        self._inbox.put(job)
        try:
            return await job.answer
        finally:
            job.ended = True

    def stop(self) -> None:
        """End the thread after the current step."""
        self._inbox.put(None)

    def step_age_s(self) -> float | None:
        """Return the seconds since the thread last made progress; None while loading."""
        return time.monotonic() - self._progress_s if self._model is not None else None

    def load(self) -> tuple[int, int]:
        """Return the number of calls that the model has begun, and of those that wait for it."""
        begun = sum(job.begun for job in list(self._jobs))
        return begun, max(0, self._admitted.total() - begun)

    # ------------------------------------------------------ on the model thread

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            self._model = self._load()
            self._progress_s = self._worked_s = time.monotonic()
            self.observer.ready()
            while self._receive():
                self._step(self._model)
        # The thread's error boundary: whatever happened, every waiting call must be answered.
        except BaseException as caught:
            failure = caught
            if self._model is not None:
                log.exception("step %d failed", self.steps + 1)
                self._fail_all()
        self.observer.ended(failure)

    def _receive(self) -> bool:
        """Receive new jobs, waiting if there are none; return False after `stop`."""
        wait = not self._jobs
        while True:
            try:
                job = self._inbox.get(wait, _IDLE_WAIT_S if wait else None)
            except Empty:
                self._progress_s = now_s = time.monotonic()
                if wait:
                    self.observer.rest(now_s - self._worked_s)
                return True
            if job is None:
                return False
            self._jobs.append(job)
            wait = False
            if self._inbox.empty():
                self._linger()

    def _linger(self) -> None:
        """Wait briefly for the next calls of clients that the last step has answered."""
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
            model.step(waiting)
            self.steps += 1
            self._worked_s = ended_s = time.monotonic()
            self._answered = sum(job.finished for job in waiting)
            self._linger_until_s = ended_s + min(_LINGER_S, _LINGER_PART * (ended_s - now_s))
        if any(job.ended for job in self._jobs):
            self._count()
            self._jobs = self._open()
            self.observer.load_changed()
        self._progress_s = time.monotonic()

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
