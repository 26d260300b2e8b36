"""Keeps a Mac awake while requests run.

A Mac that sleeps in the middle of a stream stops it. Owns the program caffeinate, which holds the
system's assertion against idle sleep and ends with this process. Runs on the gateway's event loop.
Elsewhere than on macOS it does nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Final, Literal

log = logging.getLogger(__name__)

_PROGRAM: Final = "/usr/bin/caffeinate"
# Requests that follow each other share one start of the program.
_LINGER_S: Final = 30.0


class KeepAwake:
    """Holds the assertion.

    Args:
        when: while requests run, while the server runs, or never.
        program: path of caffeinate; None: not on macOS.
        linger_s: how long the assertion is held after the last request.
    """

    def __init__(
        self,
        when: Literal["requests", "always", "never"],
        program: str | None = _PROGRAM if sys.platform == "darwin" else None,
        linger_s: float = _LINGER_S,
    ) -> None:
        self._program = None if when == "never" else program
        self._linger_s = linger_s
        self._held = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._release: asyncio.TimerHandle | None = None
        if when == "always":
            self._hold()

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Keep the Mac awake inside the block."""
        if self._program is None:
            yield
            return
        self._hold()
        try:
            yield
        finally:
            self._held -= 1
            if not self._held:
                loop = asyncio.get_running_loop()
                self._release = loop.call_later(self._linger_s, self.close)

    def _hold(self) -> None:
        self._held += 1
        if self._release is not None:
            self._release.cancel()
            self._release = None
        if self._program is None or (self._process and self._process.poll() is None):
            return
        # -i: no idle sleep; the display may sleep. -w: end with this process, however it ends.
        command = (self._program, "-i", "-w", str(os.getpid()))
        try:
            # Without close_fds Python can spawn: a fork would copy this process's address space.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                close_fds=False,
            )
        except OSError as failure:
            log.warning("can't keep this Mac awake: %s: %s", self._program, failure.strerror)
            self._program = None

    def close(self) -> None:
        """Let the Mac sleep."""
        if self._release is not None:
            self._release.cancel()
        self._release = None
        if self._process is None:
            return
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        self._process = None
