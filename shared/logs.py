"""The log format of every process: one line per record, to stderr, with the process's name.

Callers log no secrets and no prompts. Runs on any thread.
"""

from __future__ import annotations

import logging
import sys


def set_up(process: str, level: str) -> None:
    """Send log records to stderr as `date time level process logger: message key=value`."""
    handler = logging.StreamHandler(sys.stderr)
    line = f"%(asctime)s %(levelname).1s {process} %(name)s: %(message)s"
    handler.setFormatter(logging.Formatter(line, datefmt="%Y-%m-%d %H:%M:%S"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # These log every request, retry or poll below WARNING.
    for name in ("aiohttp.access", "httpx", "filelock", "asyncio", "grpc"):
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
