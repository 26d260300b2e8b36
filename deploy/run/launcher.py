"""Runs the processes of a fleet: starts them, prefixes their output, ends all when one ends.

`mlxcel-server` and `make run` use it; `honcho start` does the same with the Procfile, but leaves
processes and tracebacks behind when it is interrupted while it starts. Owns the stop signals and
one process group per process. One thread, which waits in `select`; log_writer.py has another.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from deploy.run.log_writer import Descriptor, LogWriter, RotatedFile
from deploy.run.parent_watch import HONCHO_ENV
from deploy.run.process import Process
from shared.lifecycle import EXIT_PERMANENT

_SYSTEM: Final = "system"
_POLL_S: Final = 0.5
# Longer than a supervisor gives its child.
_STOP_S: Final = 5.0
# After a second signal, on which a supervisor kills its child.
_HURRY_S: Final = 1.0
# What inherited the output of a killed supervisor notices that within this time.
_DRAIN_S: Final = 5.0
_FLUSH_S: Final = 2.0
# A longer line is printed in pieces.
_LINE_BYTES: Final = 1 << 16


@dataclasses.dataclass(eq=False)
class _Child:
    """A running process. One without `output` is a companion: its end ends nothing else."""

    name: str
    popen: subprocess.Popen[bytes]
    rest: bytes = b""
    is_open: bool = True
    ended_s: float | None = None

    @property
    def is_companion(self) -> bool:
        return self.popen.stdout is None


class Launcher:
    """Runs processes until one ends or a signal arrives.

    Args:
        environ: of the processes.
        folder: their working folder.
        fd: where their output is written.
        companion: command of a process that runs beside them, writes to the standard output
            itself and may end earlier.
        log_file: where their output is written instead.

    Raises:
        PermanentError: the log file can't be opened.
    """

    def __init__(
        self,
        processes: Sequence[Process],
        environ: Mapping[str, str],
        folder: Path,
        fd: int,
        companion: Sequence[str] = (),
        log_file: Path | None = None,
    ) -> None:
        self._processes = processes
        self._environ = {name: value for name, value in environ.items() if name != HONCHO_ENV}
        self._folder = folder
        self._companion = companion
        names = [*(item.name for item in processes), _SYSTEM]
        sink = RotatedFile(log_file) if log_file else Descriptor(fd)
        colour = log_file is None and os.isatty(fd)
        self._output = LogWriter(sink, names, _stop_this_process, colour=colour)
        self._children: list[_Child] = []
        self._selector = selectors.DefaultSelector()
        self._wakeup, self._waker = socket.socketpair()
        self._signals: list[int] = []
        self._handled = 0
        self._code: int | None = None
        self._deadline_s: float | None = None

    def run(self) -> int:
        """Return the exit code of this process: of the first end, or 128 + the first signal."""
        self._install_handlers()
        try:
            self._start_all()
            self._stop_if_ending()
            while self._children:
                self._wait()
                self._reap()
                self._stop_if_ending()
        finally:
            self._send(signal.SIGKILL)
            self._output.close(_FLUSH_S)
        return self._code or 0

    def _install_handlers(self) -> None:
        for end in (self._wakeup, self._waker):
            end.setblocking(False)
        self._selector.register(self._wakeup, selectors.EVENT_READ)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: self._signals.append(number))
        # The wake-up is written only for signals with a handler.
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _start_all(self) -> None:
        for item in self._processes:
            self._start(item.name, item.command, subprocess.PIPE)
        if self._companion:
            self._start("", self._companion, None)

    def _start(self, name: str, command: Sequence[str], output: int | None) -> None:
        """Start a process, unless all have to end already."""
        if self._signals or self._code is not None:
            return
        try:
            popen = subprocess.Popen(
                command,
                env=self._environ,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT if output else None,
                start_new_session=True,
            )
        except OSError as failure:
            self._print(f"can't start {name}: {failure.strerror}")
            self._code = EXIT_PERMANENT
            return
        child = _Child(name, popen)
        self._children.append(child)
        if popen.stdout is None:
            child.is_open = False
            return
        os.set_blocking(popen.stdout.fileno(), False)
        self._selector.register(popen.stdout, selectors.EVENT_READ, child)
        self._print(f"{name} started (pid={popen.pid})")

    def _wait(self) -> None:
        """Wait for output, a signal, the end of a process or the next poll."""
        for key, _ in self._selector.select(_POLL_S):
            if isinstance(key.data, _Child):
                self._read(key.data)
            else:
                with contextlib.suppress(BlockingIOError):
                    while self._wakeup.recv(64):
                        pass

    def _read(self, child: _Child) -> None:
        """Print the complete lines of what a process has written."""
        assert child.popen.stdout is not None
        data = os.read(child.popen.stdout.fileno(), _LINE_BYTES)
        head, newline, rest = (child.rest + data).rpartition(b"\n")
        is_whole = not data or len(rest) > _LINE_BYTES
        child.rest = b"" if is_whole else rest
        lines = head + newline + (rest if is_whole else b"")
        self._output.write(child.name, lines.decode("utf-8", "replace"))
        if not data:
            self._close(child)

    def _close(self, child: _Child) -> None:
        if child.is_open:
            assert child.popen.stdout is not None
            self._selector.unregister(child.popen.stdout)
            child.popen.stdout.close()
            child.is_open = False

    def _reap(self) -> None:
        """Note which processes have ended; forget those whose output has ended as well."""
        for child in list(self._children):
            code = child.popen.poll()
            if code is None:
                continue
            if child.ended_s is None:
                child.ended_s = time.monotonic()
                if not child.is_companion:
                    self._print(f"{child.name} stopped (rc={code})")
                    self._code = _to_exit_code(code) if self._code is None else self._code
            if not child.is_open or time.monotonic() - child.ended_s > _DRAIN_S:
                self._close(child)
                self._children.remove(child)

    def _stop_if_ending(self) -> None:
        """Send SIGTERM once, again for a second signal, and SIGKILL when the time is over."""
        now_s = time.monotonic()
        for number in self._signals[self._handled :]:
            self._handled += 1
            self._print(f"{signal.Signals(number).name} received")
            if self._code is None:
                self._code = 128 + number
            if self._deadline_s is not None:
                self._send(signal.SIGTERM)
                self._deadline_s = min(self._deadline_s, now_s + _HURRY_S)
            else:
                self._begin_stop(now_s)
        if self._code is not None and self._deadline_s is None:
            self._begin_stop(now_s)
        if self._deadline_s is not None and now_s > self._deadline_s:
            self._send(signal.SIGKILL)

    def _begin_stop(self, now_s: float) -> None:
        self._send(signal.SIGTERM)
        self._deadline_s = now_s + _STOP_S

    def _send(self, number: signal.Signals) -> None:
        """Signal the groups of processes that have not ended.

        Source: killpg(2): Darwin answers EPERM for a group that holds only zombies.
        """
        for child in self._children:
            if child.ended_s is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(child.popen.pid, number)

    def _print(self, line: str) -> None:
        self._output.write(_SYSTEM, line)


def _to_exit_code(code: int) -> int:
    """Return what a shell makes of a code that is negative for a signal."""
    return code if code >= 0 else 128 - code


def _stop_this_process() -> None:
    signal.raise_signal(signal.SIGTERM)
