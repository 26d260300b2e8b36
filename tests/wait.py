"""Waiting for a condition with a timeout.

`until` is for coroutines, `wait_for` blocks.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def until(holds: Callable[[], Any], timeout_s: float = 60.0) -> None:
    """Wait until a function or coroutine function returns a true value."""
    async with asyncio.timeout(timeout_s):
        while True:
            held = holds()
            if (await held) if inspect.isawaitable(held) else held:
                return
            await asyncio.sleep(0.01)


def wait_for(condition: Callable[[], T], timeout_s: float = 60.0) -> T:
    """Wait for the first true value of a function and return it."""
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"the condition was not true within {timeout_s} s")
