"""One call on its way through a lane: its place in the order of service, and its answer.

Owns what happens to a call, not when: that is lane.py's, and what is done for it the model's. Made
on the event loop, then the lane's thread's own, but for the answer, which the loop waits for.
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
    """One call on its way through the lane. Made on the event loop; a kind adds its own fields.

    Args:
        priority: its class.
        arrival_ns: when the gateway first saw it; orders calls of one class.
        timeout_s: after which nobody waits any more; None for never.

    Attributes:
        begun: whether the model has done anything for it.
        ended: whether it is answered, failed, or its client is gone.
        finished: whether it ended with an answer.
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
        """Return its place in the order of service; smaller goes first."""
        return (effective_class(self.priority, now_s - self._served_s), self.arrival_ns)

    def serve(self) -> None:
        """Note that the model does something for it now. On the lane's thread."""
        self.begun = True
        self._served_s = time.monotonic()

    def finish(self, result: T) -> None:
        """Answer the call. On the lane's thread."""
        self.ended = self.finished = True
        self._loop.call_soon_threadsafe(_settle, self.answer, result, None)

    def fail(self, error: ServiceError) -> None:
        """End the call with an error. On the lane's thread."""
        self.ended = self.failed = True
        self._loop.call_soon_threadsafe(_settle, self.answer, None, error)


def _settle(answer: asyncio.Future[Any], result: Any, error: ServiceError | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)
