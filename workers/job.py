"""One call to a model thread: its order of service, and its result.

When it is served is decided by `ModelThread`, and what is computed by the model. Made on the event
loop, then used by the model thread alone, except `answer`, which the loop awaits.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Generic, TypeVar

from shared.errors import ServiceError
from shared.pb import common_pb2 as common
from shared.priority import effective_class

T = TypeVar("T")


class Job(Generic[T]):
    """One call. A kind adds its own fields.

    Args:
        arrival_ns: when the gateway received it; orders calls of one class.
        timeout_s: None for no limit.

    Attributes:
        begun: whether the model has served it at least once.
        ended: whether it is finished, failed or cancelled.
        finished: whether it ended with a result.
        failed: whether it ended with an error.
    """

    def __init__(
        self, priority: common.Priority.ValueType, arrival_ns: int, timeout_s: float | None
    ) -> None:
        now_s = time.monotonic()
        self.priority = priority or common.PRIORITY_NORMAL
        self.arrival_ns = arrival_ns
        self.deadline_s = now_s + timeout_s if timeout_s is not None else float("inf")
        self.begun = False
        self.ended = False
        self.finished = False
        self.failed = False
        self._served_s = now_s
        self._loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[T] = self._loop.create_future()

    def rank(self, now_s: float) -> tuple[int, int]:
        """Return the sort key of the order of service: class, then arrival."""
        return (effective_class(self.priority, now_s - self._served_s), self.arrival_ns)

    def serve(self) -> None:
        """Record that the model serves the call now. On the model thread."""
        self.begun = True
        self._served_s = time.monotonic()

    def finish(self, result: T) -> None:
        """End the call with its result. On the model thread."""
        self.ended = self.finished = True
        self._loop.call_soon_threadsafe(_resolve, self.answer, result, None)

    def fail(self, error: ServiceError) -> None:
        """End the call with an error. On the model thread."""
        self.ended = self.failed = True
        self._loop.call_soon_threadsafe(_resolve, self.answer, None, error)


def _resolve(answer: asyncio.Future[Any], result: Any, error: ServiceError | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)
