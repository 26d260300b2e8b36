"""Installs the starter models of one worker before it starts, while other workers already run.

An install takes minutes, may fail without a network, and has to end, with its child processes,
when the supervisor is stopped, orphaned or killed. So it runs as a process of its own, whose
program is this module; deploy/starter_models/ does the install. The supervisor's thread waits
for it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Final, NoReturn

from deploy.run.parent_watch import ORIGIN_ENV, ParentWatch
from deploy.starter_models import install
from deploy.starter_models.archive import StarterError
from deploy.starter_models.table import STARTERS
from shared.fleet import Fleet
from shared.kind import KINDS

log = logging.getLogger("supervise")

_POLL_S: Final = 0.2
# Before a failed install is tried again.
_PAUSE_S: Final = 60.0


def install_models(
    fleet: Fleet, process: str, parent_watch: ParentWatch, report: Callable[[str], None]
) -> None:
    """Install the starter models of a worker, and exit when this process is stopped meanwhile.

    The first model is tried until it is installed; the worker starts without the others.

    Args:
        report: called with the reason why the worker can't start yet.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    for entry in fleet.workers:
        if not KINDS[entry.kind].is_installed:
            # The worker says so, and ends.
            continue
        if process in entry.processes:
            first, *others = [str(fleet.folder / model) for model in entry.models] or [""]
            while not _install(first, parent_watch):
                report(f"{os.path.basename(first)} can't be installed; see the log")  # noqa: PTH119
                log.error("next attempt in %.0f s", _PAUSE_S)
                _sleep(_PAUSE_S, parent_watch)
            for model in others:
                if not _install(model, parent_watch):
                    log.error("starting without %s", os.path.basename(model))  # noqa: PTH119


def _leave(*_: object) -> NoReturn:
    sys.exit(0)


def _install(model: str, parent_watch: ParentWatch) -> bool:
    """Return whether a model is installed; True for one that is no starter model."""
    wanted = install.find(model)
    if wanted is None:
        return True
    if install.is_made(wanted, install.cache_folder(), install.MODELS):
        return _link(model)
    kind = next(kind for kind, item in STARTERS.items() if item is wanted)
    command = [sys.executable, "-m", "deploy.run.installation", kind]
    environ = os.environ | {ORIGIN_ENV: str(os.getpid())}
    with subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, process_group=0) as child:
        try:
            while child.poll() is None:
                _sleep(_POLL_S, parent_watch)
        finally:
            # Also the package client that it runs.
            _kill_group(child)
        return child.returncode == 0


def _link(model: str) -> bool:
    try:
        install.install_wanted([model])
    except StarterError as failure:
        log.error("%s", failure)  # noqa: TRY400
        return False
    return True


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    """Kill the group of a child. Darwin answers EPERM for one that holds only zombies."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)


def _sleep(pause_s: float, parent_watch: ParentWatch) -> None:
    """Pause; exit when the parent of this process is gone."""
    deadline_s = time.monotonic() + pause_s
    while (left_s := deadline_s - time.monotonic()) > 0:
        if parent_watch.is_gone():
            _leave()
        time.sleep(min(left_s, _POLL_S))


def _end_with(parent_watch: ParentWatch) -> None:
    while not parent_watch.is_gone():
        time.sleep(_POLL_S)
    # The group that `_install` made, with this process in it.
    os.killpg(os.getpid(), signal.SIGKILL)


def main() -> None:
    parent_watch = ParentWatch(os.environ)
    threading.Thread(target=_end_with, args=(parent_watch,), daemon=True).start()
    install.main()


if __name__ == "__main__":
    main()
