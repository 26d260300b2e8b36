"""Helper programs, ffmpeg and espeak-ng: whether they are installed, and their processes.

A program is looked up on each use, so that one installed later is found. Runs on the event loop.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from shared.errors import ServiceError

PIPE, NONE = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL


def find(name: str) -> str | None:
    """Return the absolute path of a program; None if it is not installed."""
    path = shutil.which(name)
    return None if path is None else str(Path(path).absolute())


def describe_missing(name: str, loss: str) -> str:
    """Return the message about a program that is not installed.

    Args:
        loss: a clause that says what does not work without it.
    """
    return (
        f"{name} is not installed, and {loss} without it; "
        f"install it with: brew install {name} (macOS), apt-get install {name} (Debian)"
    )


def require(name: str, loss: str, param: str) -> str:
    """Return the absolute path of a program that a request needs.

    Args:
        loss: as of `describe_missing`.
        param: field of the request that needs the program.

    Raises:
        ServiceError: `not_implemented`, it is not installed.
    """
    if (path := find(name)) is None:
        raise ServiceError("not_implemented", f"{describe_missing(name, loss)}.", param)
    return path


@asynccontextmanager
async def run(command: Sequence[str], **streams: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a program; it is killed if it still runs when the block ends.

    Args:
        command: begins with the absolute path of the program. Only then, and without
            `close_fds`, does Python use posix_spawn, which copies no address space and runs no
            fork handlers. Descriptors are not inheritable by default (PEP 446).
    """
    process = await asyncio.create_subprocess_exec(*command, close_fds=False, **streams)
    try:
        yield process
    finally:
        # A process that has ended is not signalled: whoever awaits it would miss its exit.
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
