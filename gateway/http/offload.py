"""Functions whose cost grows with what a client sends.

Owns where they run: on the event loop for small inputs, on a thread for large ones, so that one
large body does not delay other streams. Such functions must be pure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

# Parsing a body of this size takes long enough to delay streams noticeably.
_LARGE_BYTES: Final = 64 * 1024


async def offload(
    size_bytes: int, function: Callable[P, T], *args: P.args, **options: P.kwargs
) -> T:
    """Return the function's result; it runs on a thread if its input is large."""
    if size_bytes < _LARGE_BYTES:
        return function(*args, **options)
    return await asyncio.to_thread(function, *args, **options)
