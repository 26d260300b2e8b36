"""Helper programs, ffmpeg and espeak-ng: whether they are installed, and their processes.

Runs on the event loop.
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
    """Check that a program is installed.

    Args:
        loss: a clause that says what does not work without it.

    Raises:
        PermanentError: it is not.
    """
    if shutil.which(name) is None:
        raise PermanentError(
            f"{name} is not installed, and {loss} without it; "
            f"install it with: brew install {name} (macOS), apt-get install {name} (Debian)"
        )


@asynccontextmanager
async def run(command: Sequence[str], **streams: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a program; it is killed if it still runs when the block ends."""
    process = await asyncio.create_subprocess_exec(*command, **streams)
    try:
        yield process
    finally:
        # A process that has ended is not signalled: whoever awaits it would miss its exit.
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
