"""What a gateway or worker process does as a child of `deploy/run/supervise.py`.

Owns the child's end of the liveness socket, the exit codes and the stop signals. The child inherits
one end of a socket pair. End-of-file on it means that the supervisor is gone, and the child exits
(prctl's parent-death signal does not exist on macOS). Each beat written to it carries the time
since a step last made progress. The supervisor kills a child whose beats stop or whose step hangs:
a watchdog inside the child can't run while a C call holds the GIL.
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

# The start can't succeed: bad configuration, missing model, port in use. A gateway is not
# restarted, a worker seldom or when something has changed. 78 is EX_CONFIG of sysexits.h.
EXIT_PERMANENT: Final = 78
# The engine failed; the supervisor restarts the process. 70 is EX_SOFTWARE.
EXIT_RESTART: Final = 70

SUPERVISOR_FD_ENV: Final = "MLXCEL_SUPERVISOR_FD"
# The supervisor's limit on a step, in seconds. Not that of its setting, which a child may inherit
# from elsewhere.
STEP_LIMIT_ENV: Final = "MLXCEL_STEP_LIMIT_S"
BEAT_INTERVAL_S: Final = 1.0
# A beat is one line: milliseconds since the last progress, or this while a model loads.
LOADING_BEAT: Final = b"loading\n"
# The line that says why a start can't succeed, instead of a beat.
ERROR_PREFIX: Final = b"error: "


class PermanentError(Exception):
    """The start can't succeed. The message is one line: what is wrong, what to do."""


def exit_permanently(message: str) -> NoReturn:
    """Report one line and exit with `EXIT_PERMANENT`.

    It goes to the supervisor, which prints it unless it has just printed the same, else to stderr.
    """
    if not _tell_supervisor(message):
        print(f"error: {message}", file=sys.stderr, flush=True)
    # Threads that wait in C (a model being loaded, gRPC) must not delay the exit.
    os._exit(EXIT_PERMANENT)


def _tell_supervisor(message: str) -> bool:
    fd = os.environ.get(SUPERVISOR_FD_ENV)
    if fd is None:
        return False
    line = ERROR_PREFIX + " ".join(message.split("\n")).encode(errors="replace") + b"\n"
    try:
        # A copy: the socket may belong to `Beat`.
        with socket.socket(fileno=os.dup(int(fd))) as link:
            link.sendall(b"\n" + line)
    except (OSError, ValueError):
        return False
    return True


def use_batch_scheduling() -> None:
    """Keep this thread, and threads it starts, from preempting threads that compute.

    On Linux a thread that wakes up preempts one that has run for long, even to copy one token; with
    few cores that slows every step. Under SCHED_BATCH it waits for a free core or the end of a time
    slice, and keeps its fair share of the processor. macOS needs nothing of the kind.
    """
    if sys.platform == "linux":
        # A sandbox may forbid it; that costs only speed.
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def raise_file_limit() -> None:
    """Raise this process's limit on open files; every connection is one.

    The usual default is 1,024, on macOS 256.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return
    # macOS may accept less than its hard limit: setrlimit(2), OPEN_MAX.
    for wanted in (65_536, 10_240):
        if hard != resource.RLIM_INFINITY:
            wanted = min(wanted, hard)  # noqa: PLW2901
        if wanted <= soft:
            return
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return


class Beat:
    """Sends beats to the supervisor, and watches for its end; one thread each.

    Args:
        step_age_s: seconds since the last progress of a step; None while loading. Called on the
            sending thread.
        on_orphaned: called once, on the watching thread, when the supervisor is gone; the process
            is ended four seconds later if it is still there.

    Does nothing without a supervisor.
    """

    def __init__(
        self, step_age_s: Callable[[], float | None], on_orphaned: Callable[[], None]
    ) -> None:
        self._step_age_s = step_age_s
        self._on_orphaned = on_orphaned
        self._stop = threading.Event()

    def start(self) -> None:
        fd = os.environ.get(SUPERVISOR_FD_ENV)
        if fd is None:
            return
        link = socket.socket(fileno=int(fd))
        os.set_inheritable(link.fileno(), False)
        for target in (self._send, self._watch):
            threading.Thread(target=target, args=(link,), daemon=True).start()

    def stop(self) -> None:
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
        # No supervisor is left to send SIGKILL.
        self._stop.wait(4.0)
        os._exit(0)


def read_step_limit_s() -> float:
    """Return the supervisor's limit on a step; 0 without a supervisor."""
    return float(os.environ.get(STEP_LIMIT_ENV, "0"))


def on_stop_signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """Call `stop` on SIGTERM and SIGINT, on the loop; a second signal ends the process at once."""
    seen = 0

    def handle() -> None:
        nonlocal seen
        seen += 1
        if seen > 1:
            os._exit(1)
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, handle)
