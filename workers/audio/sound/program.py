"""Programs that do a part of the work: they are there, or it is said; and they end.

Runs on the event loop; the work is the other process's.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from shared.lifecycle import PermanentError

PIPE, NONE = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL


def require(name: str, loss: str) -> None:
    """Make sure that there is a program to run.

    Args:
        loss: what can't be done without it.

    Raises:
        PermanentError: there is none.
    """
    if shutil.which(name) is None:
        raise PermanentError(
            f"{name} is not installed, and {loss} without it; "
            f"on macOS: brew install {name}, on Debian: apt-get install {name}"
        )


@asynccontextmanager
async def run(command: Sequence[str], **streams: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a program; it is gone when the block ends, however it does."""
    process = await asyncio.create_subprocess_exec(*command, **streams)
    try:
        yield process
    finally:
        # Not when it has ended by itself: a signal would take its end from who waits for it.
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
