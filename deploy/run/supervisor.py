"""Keeps one process running.

Owns the child: its process group, restarts, signals, and killing it when it hangs. Knows nothing
of the child but the heartbeats that `shared/lifecycle.py` describes. A gateway that can't start
ends this process, and with it the server; a worker that can't start is tried again from time to
time, since the others go on. Runs on one thread, which waits in `select`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from deploy.run.health import BackOff, ChildHealth, SupervisionLimits
from deploy.run.parent_watch import ParentWatch
from deploy.run.worker_start import WorkerStart
from shared import rundir
from shared.lifecycle import EXIT_PERMANENT, STEP_LIMIT_ENV, SUPERVISOR_FD_ENV

log = logging.getLogger("supervise")


class Supervisor:
    """Runs a command until it is signalled to stop.

    Args:
        command: of the child.
        environ: of the child.
        limits: shortened by tests.
        parent_watch: says when to end; by default, when the parent of this process is gone.
        worker_start: decides about a child that can't start; without it, this process ends.
        prepare: called before each start of the child.
    """

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        limits: SupervisionLimits | None = None,
        parent_watch: ParentWatch | None = None,
        worker_start: WorkerStart | None = None,
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        self._command = list(command)
        self._environ = dict(environ)
        self._limits = limits or SupervisionLimits()
        self._parent_watch = parent_watch or ParentWatch(environ)
        self._worker_start = worker_start
        self._prepare = prepare
        self._child_health = ChildHealth(self._limits)
        self._printed = ""
        self._signals = 0
        self._wakeup, self._waker = socket.socketpair()
        for end in (self._wakeup, self._waker):
            end.setblocking(False)

    def run(self) -> int:
        """Keep the child running; return the exit code of this process."""
        self._install_handlers()
        back_off = BackOff(self._limits)
        restarts = unready = 0
        while True:
            began_s = time.monotonic()
            before = self._worker_start.fingerprint() if self._worker_start else None
            reason = self._run_once()
            if reason is None:
                return 0
            if reason == EXIT_PERMANENT:
                if self._gives_up():
                    return EXIT_PERMANENT
                if self._wait_for_change(before):
                    return 0
                continue
            unready = 0 if self._child_health.ready else unready + 1
            self._note_crash(reason, unready)
            restarts += 1
            pause_s = back_off.after(time.monotonic() - began_s)
            log.warning("%s; restart %d in %.1f s", _explain(reason), restarts, pause_s)
            if self._sleep(pause_s):
                return 0

    def _gives_up(self) -> bool:
        """Report a start that can't succeed; return whether this process ends because of it."""
        reason = self._child_health.error
        is_new = not reason or reason != self._printed
        if reason and is_new:
            print(f"error: {reason}", file=sys.stderr, flush=True)
            self._printed = reason
        if self._worker_start is not None:
            self._worker_start.report(reason or "its settings or files are wrong; see the log")
            if not self._worker_start.ends_server():
                if is_new:
                    log.error(
                        "the worker can't start; next attempt in %.0f s, or when its model, the "
                        "fleet file or an installed program has changed",
                        self._limits.retry_s,
                    )
                return False
        log.error("the process can't start; ending the server")
        return True

    def _note_crash(self, reason: int | str, unready: int) -> None:
        """Report a worker that exits again and again before it is ready."""
        if self._worker_start is None:
            return
        exits = isinstance(reason, int) and reason > 0
        if not exits or unready < self._limits.failed_starts:
            # An earlier attempt's reason does not explain this end.
            self._worker_start.clear()
        else:
            self._worker_start.report(f"{_explain(reason)} at each start; see the log")

    def _wait_for_change(self, before: object) -> bool:
        """Wait until another attempt is due; return whether this process has to end.

        It is due after `retry_s`, and when what a start needs has changed and, at two polls in a
        row, is the same: a model that is being copied changes at every poll.
        """
        assert self._worker_start is not None
        deadline_s = time.monotonic() + self._limits.retry_s
        last = None
        while time.monotonic() < deadline_s:
            now = self._worker_start.fingerprint()
            if now != before and now == last:
                break
            last = now
            if self._sleep(self._limits.poll_s):
                return True
        return False

    def _install_handlers(self) -> None:
        """Count SIGTERM and SIGINT; every signal ends a wait."""
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._count)
        # The wake-up is written only for signals with a handler.
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _count(self, *_: object) -> None:
        self._signals += 1

    def _is_ending(self) -> bool:
        return self._signals > 0 or self._parent_watch.is_gone()

    def _run_once(self) -> int | str | None:
        """Run one child until it exits.

        Returns:
            Its exit code (negative: the signal), the reason why it was killed, or None when
            this process has to end as well.
        """
        self._child_health = ChildHealth(self._limits)
        ours, theirs = socket.socketpair()
        try:
            self._prepare()
            child = self._start(theirs)
        except OSError as failure:
            name = failure.filename or self._command[0]
            self._child_health.error = f"can't run {name}: {failure.strerror}"
            return EXIT_PERMANENT
        except rundir.RunDirectoryError as failure:
            self._child_health.error = str(failure)
            return EXIT_PERMANENT
        finally:
            theirs.close()
        with ours:
            return self._attend(child, ours)

    def _start(self, link: socket.socket) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command,
            env=self._environ
            | {
                SUPERVISOR_FD_ENV: str(link.fileno()),
                STEP_LIMIT_ENV: str(self._limits.step_timeout_s),
            },
            stdin=subprocess.DEVNULL,
            pass_fds=(link.fileno(),),
            process_group=0,
        )

    def _attend(self, child: subprocess.Popen[bytes], link: socket.socket) -> int | str | None:
        """Read a child's heartbeats until it exits, or kill it; return as `_run_once` does."""
        child_health = self._child_health
        failure = None
        open_links = [link]
        began_s = time.monotonic()
        while child.poll() is None:
            if self._is_ending():
                self._stop(child)
                break
            failure = child_health.find_failure()
            if failure is not None:
                break
            if self._wait(open_links):
                data = link.recv(4096)
                child_health.feed(data)
                if not data:
                    open_links.clear()
            self._note_progress(time.monotonic() - began_s)
        # Also processes that the child started and left behind.
        _signal_group(child, signal.SIGKILL)
        code = child.wait()
        _drain(link, child_health)
        if self._is_ending():
            return None
        return failure or code

    def _note_progress(self, ran_s: float) -> None:
        """Withdraw the last failure once a start seems to succeed."""
        if self._worker_start is None:
            return
        if self._child_health.ready:
            self._worker_start.note_ready()
            self._printed = ""
        elif ran_s > self._limits.settle_s:
            self._worker_start.clear()

    def _stop(self, child: subprocess.Popen[bytes]) -> None:
        """Send SIGTERM and wait up to `stop_grace_s`; a second signal ends the wait."""
        seen = self._signals
        _signal_group(child, signal.SIGTERM)
        deadline_s = time.monotonic() + self._limits.stop_grace_s
        while child.poll() is None and time.monotonic() < deadline_s:
            if self._signals > max(seen, 1):
                return
            self._wait([], deadline_s - time.monotonic())

    def _sleep(self, pause_s: float) -> bool:
        """Pause; return whether this process has to end."""
        deadline_s = time.monotonic() + pause_s
        while not self._is_ending():
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return False
            self._wait([], left_s)
        return True

    def _wait(self, links: Sequence[socket.socket], longest_s: float = 60.0) -> bool:
        """Wait for a signal, data on `links` or the next poll; return whether there is data."""
        pause_s = max(0.0, min(longest_s, self._limits.poll_s))
        ready, _, _ = select.select([self._wakeup, *links], [], [], pause_s)
        if self._wakeup in ready:
            with contextlib.suppress(BlockingIOError):
                while self._wakeup.recv(64):
                    pass
        return any(link in ready for link in links)


def _drain(link: socket.socket, child_health: ChildHealth) -> None:
    """Read what a child wrote before it ended."""
    link.setblocking(False)
    with contextlib.suppress(OSError):
        while data := link.recv(4096):
            child_health.feed(data)


def _signal_group(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signal the child's process group, which may be gone.

    Source: killpg(2): Darwin answers EPERM for a group that holds only zombies.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


def _explain(reason: int | str) -> str:
    """Return how a child ended, for the log."""
    if isinstance(reason, str):
        return f"killed: {reason}"
    if reason < 0:
        return f"ended by signal {-reason} ({signal.strsignal(-reason)})"
    return f"ended with exit code {reason}"
