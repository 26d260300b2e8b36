"""Work that grows with what a client sends.

Owns where it is done: a little on the event loop, much on a thread, so that one large body does not
hold up the streams of everybody else. Functions that are handed over must be pure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

# A body this large takes a moment that would be seen in streams.
_LARGE_BYTES: Final = 64 * 1024


async def work_on(size_bytes: int, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Return what a function gives, on a thread if it has much to do."""
    if size_bytes < _LARGE_BYTES:
        return work(*args, **options)
    return await asyncio.to_thread(work, *args, **options)
