"""Writes the output of several processes to one place, each line with time and name.

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
from logging import LogRecord, makeLogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final, Protocol

from shared.lifecycle import PermanentError

_MOST_LINES: Final = 10_000
# A log file is renamed when it has this size, and as many older ones are kept.
_FILE_BYTES: Final = 20 << 20
_OLD_FILES: Final = 4
# ANSI SGR codes: cyan, yellow, green, magenta, red, blue.
_COLOURS: Final = ("36", "33", "32", "35", "31", "34")


class Sink(Protocol):
    """Takes what is written, on one thread."""

    def write(self, data: bytes) -> None:
        """Write; raises OSError when nothing can be written any more."""

    def close(self) -> None:
        """Close what was opened for it."""


class LogWriter:
    """Writes prefixed lines.

    Args:
        sink: where they are written; closed at the end.
        names: whose lines are written; sets the width of the prefix, and the colours.
        on_reader_gone: called once, on the writing thread, when nothing can be written any more.
        limit: of lines that wait to be written.
    """

    def __init__(
        self,
        sink: Sink,
        names: Sequence[str],
        on_reader_gone: Callable[[], None],
        *,
        colour: bool = False,
        limit: int = _MOST_LINES,
    ) -> None:
        self._sink = sink
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
                    self._sink.write(line)
            except OSError:
                is_gone = True
                self._on_reader_gone()
        self._sink.close()


class Descriptor:
    """A sink that writes to a file descriptor, which may be non-blocking and stays open."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:
                select.select([], [self._fd], [])

    def close(self) -> None:
        """Leave it open."""


class RotatedFile:
    """A sink that writes to a file, which it renames when the file has become large.

    Raises:
        PermanentError: the file can't be opened.
    """

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._handler = _Handler(path, maxBytes=_FILE_BYTES, backupCount=_OLD_FILES)
        except OSError as failure:
            raise PermanentError(f"--log-file {path}: {failure.strerror}") from None

    def write(self, data: bytes) -> None:
        record = makeLogRecord({"msg": data.decode(errors="replace").rstrip("\n")})
        self._handler.handle(record)

    def close(self) -> None:
        self._handler.close()


class _Handler(RotatingFileHandler):
    def handleError(self, record: LogRecord) -> None:  # noqa: N802 - logging's name
        """A full disk costs lines of the log, not the server."""
