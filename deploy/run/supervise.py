"""Keeps one process running: the command behind every line of the Procfile.

Owns its child's life: a process group of its own, restarts, signals, and its end when it hangs.
What the child does is none of its business beyond the beats that `shared/lifecycle.py` describes.
Runs on one thread, which sleeps in `select`.
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
    """Runs a command until it is told to stop, or the command can never succeed.

    Args:
        command: of the child.
        environ: of the child.
        limits: shortened by tests.
        ancestry: tells when to end; by default, with whoever has started this process.
    """

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        limits: SupervisionLimits | None = None,
        ancestry: ParentWatch | None = None,
    ) -> None:
        self._command = list(command)
        self._environ = dict(environ)
        self._limits = limits or SupervisionLimits()
        self._ancestry = ancestry or ParentWatch(environ)
        self._signals = 0
        self._wakeup, self._waker = socket.socketpair()
        for end in (self._wakeup, self._waker):
            end.setblocking(False)

    def run(self) -> int:
        """Keep the child running; return the exit code of this process."""
        self._listen()
        back_off = BackOff(self._limits)
        restarts = 0
        while True:
            began_s = time.monotonic()
            reason = self._run_once()
            if reason is None:
                return 0
            if reason == EXIT_PERMANENT:
                log.error("the process can't start as it is set up; not trying again")
                return EXIT_PERMANENT
            restarts += 1
            pause_s = back_off.after(time.monotonic() - began_s)
            log.warning("%s; restart %d in %.1f s", _explain(reason), restarts, pause_s)
            if self._sleep(pause_s):
                return 0

    def _listen(self) -> None:
        """Turn SIGTERM and SIGINT into a count, and every signal into the end of a sleep."""
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._count)
        # A handler has to be there for the wake-up to be written.
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _count(self, *_: object) -> None:
        self._signals += 1

    def _is_ending(self) -> bool:
        return self._signals > 0 or self._ancestry.is_gone()

    def _run_once(self) -> int | str | None:
        """Run one child to its end.

        Returns:
            Its exit code (negative: the signal), the complaint it was killed for, or None when
            this process is to end as well.
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
        """Listen to a child until it is gone, and see that it is."""
        pulse = ChildHealth(self._limits)
        complaint = None
        open_links = [link]
        while child.poll() is None:
            if self._is_ending():
                self._stop(child)
                break
            complaint = pulse.complaint()
            if complaint is not None:
                break
            if self._wait(open_links):
                data = link.recv(4096)
                pulse.feed(data)
                if not data:
                    open_links.clear()
        # Also what the child has started, and left behind.
        _signal_group(child, signal.SIGKILL)
        code = child.wait()
        if self._is_ending():
            return None
        return complaint or code

    def _stop(self, child: subprocess.Popen[bytes]) -> None:
        """Give the child's group its time to end; a second signal cuts it short."""
        seen = self._signals
        _signal_group(child, signal.SIGTERM)
        deadline_s = time.monotonic() + self._limits.stop_grace_s
        while child.poll() is None and time.monotonic() < deadline_s:
            if self._signals > max(seen, 1):
                return
            self._wait([], deadline_s - time.monotonic())

    def _sleep(self, pause_s: float) -> bool:
        """Pause; return whether this process is to end."""
        deadline_s = time.monotonic() + pause_s
        while not self._is_ending():
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return False
            self._wait([], left_s)
        return True

    def _wait(self, links: Sequence[socket.socket], longest_s: float = 60.0) -> bool:
        """Sleep until a signal, a beat on `links` or a poll is due; return whether one beat."""
        pause_s = max(0.0, min(longest_s, self._limits.poll_s))
        ready, _, _ = select.select([self._wakeup, *links], [], [], pause_s)
        if self._wakeup in ready:
            with contextlib.suppress(BlockingIOError):
                while self._wakeup.recv(64):
                    pass
        return any(link in ready for link in links)


def _signal_group(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signal the child's process group; it may be gone already.

    Source: killpg(2): Darwin answers EPERM for a group that holds only zombies.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


def _explain(reason: int | str) -> str:
    """Return the words for how a child ended."""
    if isinstance(reason, str):
        return f"killed: {reason}"
    if reason < 0:
        return f"ended by signal {-reason} ({signal.strsignal(-reason)})"
    return f"ended with exit code {reason}"


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the parsed command line: options, `--`, and the command."""
    parser = argparse.ArgumentParser(prog="deploy.run.supervise", description=__doc__)
    parser.add_argument("--name", required=True, help="of the process, for the log")
    parser.add_argument("--config", type=Path, required=True, help="fleet file")
    add_arguments(parser, [SupervisorSettings])
    parser.add_argument("command", nargs="+", help="what to run")
    return parser.parse_args(arguments)


def main() -> None:
    """Supervise the command in the arguments."""
    # Before anything that takes time: whoever started this may be gone by its end.
    ancestry = ParentWatch(os.environ)
    options = parse()
    logs.set_up(options.name, "info")
    try:
        fleet = load_fleet(options.config)
        settings = resolve(SupervisorSettings, options, os.environ, fleet.supervisor, "supervisor")
    except ConfigError as failure:
        print(f"error: {failure}", file=sys.stderr)
        sys.exit(EXIT_PERMANENT)
    install_models(fleet, options.name, ancestry)
    environ = openblas.preload(os.environ, openblas.find())
    limits = SupervisionLimits(step_timeout_s=settings.step_timeout_s)
    sys.exit(Supervisor(options.command, environ, limits, ancestry).run())


if __name__ == "__main__":
    main()
