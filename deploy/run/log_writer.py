"""Writes the output of several processes to one file descriptor, each line with time and name.

A thread writes, so that a reader that pauses (Ctrl-S, a pager) delays no process. Lines beyond a
limit are dropped and counted. Any thread may call; what is written is bytes, past Python's buffers.
"""

from __future__ import annotations

import itertools
import os
import queue
import select
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

_MOST_LINES: Final = 10_000
# ANSI SGR codes: cyan, yellow, green, magenta, red, blue.
_COLOURS: Final = ("36", "33", "32", "35", "31", "34")


class LogWriter:
    """Writes prefixed lines.

    Args:
        names: whose lines are written; sets the width of the prefix, and the colours.
        on_reader_gone: called once, on the writing thread, when nothing can be written any more.
        limit: of lines that wait to be written.
    """

    def __init__(
        self,
        fd: int,
        names: Sequence[str],
        on_reader_gone: Callable[[], None],
        *,
        colour: bool = False,
        limit: int = _MOST_LINES,
    ) -> None:
        self._fd = fd
        self._width = max(map(len, names))
        self._colours = dict(zip(names, itertools.cycle(_COLOURS), strict=False)) if colour else {}
        self._on_reader_gone = on_reader_gone
        self._lines: queue.Queue[bytes | None] = queue.Queue(limit)
        self._dropped = 0
        self._thread = threading.Thread(target=self._write_all, daemon=True)
        self._thread.start()

    def write(self, name: str, text: str) -> None:
        """Write lines of a process, without waiting."""
        for line in text.splitlines():
            self._report_dropped(0)
            if self._dropped or not self._put(name, line, 0):
                self._dropped += 1

    def close(self, timeout_s: float) -> None:
        """Wait until all lines are written, or the time is over."""
        self._report_dropped(timeout_s)
        try:
            self._lines.put(None, timeout=timeout_s)
        except queue.Full:
            return
        self._thread.join(timeout_s)

    def _report_dropped(self, timeout_s: float) -> None:
        if self._dropped and self._put("", f"{self._dropped} lines were dropped", timeout_s):
            self._dropped = 0

    def _put(self, name: str, line: str, timeout_s: float) -> bool:
        prefix = f"{time.strftime('%H:%M:%S')} {name:{self._width}} | "
        if code := self._colours.get(name):
            prefix = f"\x1b[0m\x1b[{code}m{prefix}\x1b[0m"
        try:
            data = f"{prefix}{line}\n".encode("utf-8", "replace")
            self._lines.put(data, block=timeout_s > 0, timeout=timeout_s)
        except queue.Full:
            return False
        return True

    def _write_all(self) -> None:
        is_gone = False
        while (line := self._lines.get()) is not None:
            try:
                if not is_gone:
                    self._write(line)
            except OSError:
                is_gone = True
                self._on_reader_gone()

    def _write(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:
                select.select([], [self._fd], [])
