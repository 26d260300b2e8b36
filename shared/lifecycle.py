"""The life of one process under `deploy/run/supervise.py`.

Owns the child's end of the liveness socket, the exit codes, and the two signals. The supervisor
hands down one end of a socket pair: end-of-file on it means that the supervisor is gone, and
this process ends too (prctl's parent-death signal does not exist on macOS). Each beat on it
carries the age of the engine's last step; the supervisor kills a process that falls silent or
whose step never returns, since a watchdog in here can't run while a C call holds the GIL.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Final, NoReturn

# A start that can never succeed: bad configuration, missing model, port in use. The supervisor
# does not retry it. 78 is EX_CONFIG of sysexits.h.
EXIT_PERMANENT: Final = 78
# The engine failed and the process wants to be started again. 70 is EX_SOFTWARE.
EXIT_RESTART: Final = 70

SUPERVISOR_FD_ENV: Final = "MLXCEL_SUPERVISOR_FD"
BEAT_INTERVAL_S: Final = 1.0
# A beat is one line: milliseconds since the last step, or this while a model loads.
LOADING_BEAT: Final = b"loading\n"


class PermanentError(Exception):
    """A start that can never succeed. The message is one line: what is wrong, what to do."""


def exit_permanently(message: str) -> NoReturn:
    """Print one line on stderr and leave with `EXIT_PERMANENT`."""
    print(f"error: {message}", file=sys.stderr, flush=True)
    # Threads that wait in C (a model being loaded, gRPC) must not delay the exit.
    os._exit(EXIT_PERMANENT)


def give_way() -> None:
    """Let this thread, and those it starts, never interrupt one that computes.

    On Linux a thread that wakes takes the processor from one that has run for long, even to copy
    one token; on a machine of few cores every step would pay for that. As a batch thread it waits
    for a free core or the end of a time slice, and keeps its fair share. macOS tells the two apart
    by itself.
    """
    if sys.platform == "linux":
        # A sandbox may forbid it; nothing but speed is lost.
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def allow_connections() -> None:
    """Raise this process's limit on open files, of which every connection is one.

    Many systems begin with 1,024, macOS with 256.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return
    # macOS may take less than it calls its hard limit: setrlimit(2), OPEN_MAX.
    for wanted in (65_536, 10_240):
        if hard != resource.RLIM_INFINITY:
            wanted = min(wanted, hard)  # noqa: PLW2901
        if wanted <= soft:
            return
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return


class Beat:
    """Tells the supervisor that this process lives, from a thread of its own.

    Args:
        step_age_s: seconds since the last finished step; None while loading. Called from the
            beat's thread.
        on_orphaned: called once, from the watching thread, when the supervisor is gone; the
            process is ended a few seconds later if it has not left by itself.

    Does nothing when the process was started by hand.
    """

    def __init__(
        self, step_age_s: Callable[[], float | None], on_orphaned: Callable[[], None]
    ) -> None:
        self._step_age_s = step_age_s
        self._on_orphaned = on_orphaned
        self._stop = threading.Event()

    def start(self) -> None:
        """Start the two threads, if there is a supervisor."""
        fd = os.environ.pop(SUPERVISOR_FD_ENV, None)
        if fd is None:
            return
        link = socket.socket(fileno=int(fd))
        os.set_inheritable(link.fileno(), False)
        for target in (self._send, self._watch):
            threading.Thread(target=target, args=(link,), daemon=True).start()

    def stop(self) -> None:
        """Stop sending."""
        self._stop.set()

    def _send(self, link: socket.socket) -> None:
        while not self._stop.is_set():
            age_s = self._step_age_s()
            line = LOADING_BEAT if age_s is None else b"%d\n" % int(age_s * 1000)
            with contextlib.suppress(OSError):
                link.sendall(line)
            self._stop.wait(BEAT_INTERVAL_S)

    def _watch(self, link: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while link.recv(64):
                pass
        if self._stop.is_set():
            return
        self._on_orphaned()
        # Nobody is left to send SIGKILL.
        self._stop.wait(4.0)
        os._exit(0)


def on_stop_signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """Call `stop` on SIGTERM and SIGINT, on the loop; a second one ends the process at once."""
    seen = 0

    def handle() -> None:
        nonlocal seen
        seen += 1
        if seen > 1:
            os._exit(1)
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, handle)
