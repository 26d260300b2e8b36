"""Keeps one process running: the command behind every line of the Procfile.

Owns the child: its process group, restarts, signals, and killing it when it hangs. Knows nothing
of the child but the heartbeats that `shared/lifecycle.py` describes. Runs on one thread, which
waits in `select`.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from deploy.run.health import BackOff, ChildHealth, SupervisionLimits
from deploy.run.installation import install_models
from deploy.run.parent_watch import ParentWatch
from deploy.setup import openblas
from shared import logs
from shared.config import add_arguments, resolve
from shared.declaration import ConfigError
from shared.fleet import load_fleet
from shared.lifecycle import EXIT_PERMANENT, SUPERVISOR_FD_ENV
from shared.settings import SupervisorSettings

log = logging.getLogger("supervise")


class Supervisor:
    """Runs a command until it is signalled to stop, or the command fails permanently.

    Args:
        command: of the child.
        environ: of the child.
        limits: shortened by tests.
        parent_watch: says when to end; by default, when the parent of this process is gone.
    """

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        limits: SupervisionLimits | None = None,
        parent_watch: ParentWatch | None = None,
    ) -> None:
        self._command = list(command)
        self._environ = dict(environ)
        self._limits = limits or SupervisionLimits()
        self._parent_watch = parent_watch or ParentWatch(environ)
        self._signals = 0
        self._wakeup, self._waker = socket.socketpair()
        for end in (self._wakeup, self._waker):
            end.setblocking(False)

    def run(self) -> int:
        """Keep the child running; return the exit code of this process."""
        self._install_handlers()
        back_off = BackOff(self._limits)
        restarts = 0
        while True:
            began_s = time.monotonic()
            reason = self._run_once()
            if reason is None:
                return 0
            if reason == EXIT_PERMANENT:
                log.error("the process can't start with these settings; not restarting it")
                return EXIT_PERMANENT
            restarts += 1
            pause_s = back_off.after(time.monotonic() - began_s)
            log.warning("%s; restart %d in %.1f s", _explain(reason), restarts, pause_s)
            if self._sleep(pause_s):
                return 0

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
        ours, theirs = socket.socketpair()
        try:
            child = self._start(theirs)
        except OSError as failure:
            log.error("can't run %s: %s", self._command[0], failure.strerror)  # noqa: TRY400
            return EXIT_PERMANENT
        finally:
            theirs.close()
        with ours:
            return self._attend(child, ours)

    def _start(self, link: socket.socket) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command,
            env=self._environ | {SUPERVISOR_FD_ENV: str(link.fileno())},
            stdin=subprocess.DEVNULL,
            pass_fds=(link.fileno(),),
            process_group=0,
        )

    def _attend(self, child: subprocess.Popen[bytes], link: socket.socket) -> int | str | None:
        """Read a child's heartbeats until it exits, or kill it; return as `_run_once` does."""
        child_health = ChildHealth(self._limits)
        failure = None
        open_links = [link]
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
        # Also processes that the child started and left behind.
        _signal_group(child, signal.SIGKILL)
        code = child.wait()
        if self._is_ending():
            return None
        return failure or code

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


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="deploy.run.supervise", description=__doc__)
    parser.add_argument("--name", required=True, help="of the process, for the log")
    parser.add_argument("--config", type=Path, required=True, help="fleet file")
    add_arguments(parser, [SupervisorSettings])
    parser.add_argument("command", nargs="+", help="what to run")
    return parser.parse_args(arguments)


def main() -> None:
    # First, since the parent may end while the rest runs.
    parent_watch = ParentWatch(os.environ)
    options = parse()
    logs.set_up(options.name, "info")
    try:
        fleet = load_fleet(options.config)
        settings = resolve(SupervisorSettings, options, os.environ, fleet.supervisor, "supervisor")
    except ConfigError as failure:
        print(f"error: {failure}", file=sys.stderr)
        sys.exit(EXIT_PERMANENT)
    install_models(fleet, options.name, parent_watch)
    environ = openblas.preload(os.environ, openblas.find())
    limits = SupervisionLimits(step_timeout_s=settings.step_timeout_s)
    sys.exit(Supervisor(options.command, environ, limits, parent_watch).run())


if __name__ == "__main__":
    main()
