"""Prints one line per step of a set-up: name, time, and a bar while the size is known.

Owns standard output during a step, and the log file with the full output of the programs that
the steps run. On a terminal a thread updates the line in place; elsewhere a line is printed when
a step starts and when it ends. Standard library only: the set-up runs on the system's Python.
"""

from __future__ import annotations

import collections
import os
import re
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, TextIO, TypeVar

# Receives how much is done, and of how much.
Report = Callable[[int, int], None]
_T = TypeVar("_T")

_TICK_S: Final = 0.2
_BAR_WIDTH: Final = 24
# Lines of output shown when a step fails.
_TAIL_LINES: Final = 15
# pip with `--progress-bar raw`.
_SIZE: Final = re.compile(r"Progress (\d+) of (\d+)$")
_FILE: Final = re.compile(r" *(?:Downloading|Using cached) ([^-\s]+)-([^-\s]+)\S*(?: \((.+)\))?")
_PHASES: Final = {
    "Collecting": "resolving",
    "Building": "building",
    "Installing collected packages": "installing",
}
_CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
# Moves to the first column; clears to the end of the line.
_REWRITE: Final = "\r", "\x1b[K"


class Step:
    """One step: what it has done so far, and its part of the log."""

    def __init__(self, title: str, log: IO[bytes]) -> None:
        self.title = title
        self.warning = ""
        self.tail: collections.deque[str] = collections.deque(maxlen=_TAIL_LINES)
        self._log = log
        self._began_s = time.monotonic()
        self._detail = ""
        self._fraction: float | None = None

    @property
    def seconds(self) -> str:
        return f"{time.monotonic() - self._began_s:.0f} s"

    def report(self, done: int, total: int) -> None:
        """Set the bar; without a total there is none."""
        self._fraction = min(1.0, done / total) if total > 0 else None

    def warn(self, text: str) -> None:
        """End the step with a warning: the set-up continues without its result."""
        self.warning = text

    def run(
        self,
        command: Sequence[str],
        environ: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> int:
        """Run a program with its output in the log; return its exit code.

        Raises:
            OSError: it can't be started.
        """
        self.write(f"$ {' '.join(command)}")
        with subprocess.Popen(
            command,
            env=environ,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as child:
            assert child.stdout is not None
            try:
                for line in child.stdout:
                    self._read(_CONTROL.sub("", line.decode("utf-8", "replace")).rstrip())
            except BaseException:
                child.terminate()
                raise
        self._fraction, self._detail = None, ""
        return child.returncode

    def write(self, line: str) -> None:
        """Add a line to the log."""
        self._log.write(f"{line}\n".encode())
        self._log.flush()

    def render(self, columns: int) -> str:
        """Return the line of a step that is running, at most so many columns wide."""
        parts = [f"==> {self.title} … {self.seconds}"]
        if (fraction := self._fraction) is not None:
            bar = "#" * int(fraction * _BAR_WIDTH)
            parts.append(f"[{bar:-<{_BAR_WIDTH}}] {fraction:4.0%}")
        if self._detail:
            parts.append(self._detail)
        return "  ".join(parts)[:columns]

    def _read(self, line: str) -> None:
        """Take a line of a program's output; pip's counters are shown and not logged."""
        if size := _SIZE.match(line):
            self.report(int(size[1]), int(size[2]))
            return
        self.write(line)
        self.tail.append(line)
        if file := _FILE.match(line):
            self._detail = " ".join(filter(None, file.groups()))
            self._fraction = None
        for start, phase in _PHASES.items():
            if line.lstrip().startswith(start):
                self._detail, self._fraction = phase, None


class Progress:
    """Runs steps one after the other; they share a log file, which the first of them makes anew.

    Args:
        output: where the lines are printed; standard output by default.
    """

    def __init__(self, log: Path, output: TextIO | None = None) -> None:
        self._log = log
        self._output = output or sys.stdout
        self._mode: str = "wb"

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Show a step while the body runs; a failure is printed with the end of the output."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open(self._mode) as log:
            self._mode = "ab"
            step = Step(title, log)
            step.write(f"==> {title}")
            try:
                with self._show(step):
                    yield step
            except BaseException as failure:
                self._fail(step, failure)
                raise
            if step.warning:
                self._print(f"==> {title} … {step.seconds}: {step.warning}")
            else:
                self._print(f"==> {title} … {step.seconds}")

    @contextmanager
    def _show(self, step: Step) -> Iterator[None]:
        if not self._output.isatty():
            self._print(f"==> {step.title} …")
            yield
            return
        ended = threading.Event()
        ticker = threading.Thread(target=self._tick, args=(step, ended), daemon=True)
        ticker.start()
        try:
            yield
        finally:
            ended.set()
            ticker.join()
            self._print("".join(_REWRITE), end="")

    def _tick(self, step: Step, ended: threading.Event) -> None:
        start, clear = _REWRITE
        while not ended.is_set():
            # One column stays free: a full line would wrap.
            self._print(f"{start}{step.render(self._columns() - 1)}{clear}", end="")
            ended.wait(_TICK_S)

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._output.fileno()).columns or 80
        except OSError:
            return 80

    def _fail(self, step: Step, failure: BaseException) -> None:
        if not isinstance(failure, Exception):
            self._print(f"==> {step.title} … stopped after {step.seconds}")
            return
        step.write("".join(traceback.format_exception(failure)))
        self._print(f"==> {step.title} … failed after {step.seconds}")
        for line in step.tail:
            self._print(f"    {line}")
        self._print(f"    The full output is in {self._log}")

    def _print(self, text: str, end: str = "\n") -> None:
        encoding = self._output.encoding or "utf-8"
        self._output.write((text + end).encode(encoding, "replace").decode(encoding))
        self._output.flush()


def track(items: Collection[_T], report: Report) -> Iterator[_T]:
    """Yield the items and report after each how many are done."""
    for done, item in enumerate(items, 1):
        yield item
        report(done, len(items))
