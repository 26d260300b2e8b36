"""Starter models of one worker, installed before it starts while the others run already.

Owns the waiting: an install takes minutes, may fail for want of a network and be tried again, and
ends with whatever it has started when the supervisor is told to end, is left alone, or is killed.
So it runs as a process of its own, with this module as its program; what an install is belongs to
starter.py. The waiting is done on the supervisor's one thread, before anything is supervised.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Final, NoReturn

from deploy.run.parent_watch import ORIGIN_ENV, ParentWatch
from deploy.starter_models import install
from deploy.starter_models.archive import StarterError
from deploy.starter_models.table import STARTERS
from shared.fleet import Fleet

log = logging.getLogger("supervise")

_POLL_S: Final = 0.2
# After which a model that could not be had is tried again.
_PAUSE_S: Final = 60.0


def install_models(fleet: Fleet, process: str, ancestry: ParentWatch) -> None:
    """See that a worker's starter models are there, however long it takes.

    The first is what it is for: without another it starts all the same. Ends the process when it
    is to end meanwhile.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    for entry in fleet.workers:
        if process == entry.name or process.startswith(f"{entry.name}_"):
            first, *others = [str(fleet.folder / model) for model in entry.models] or [""]
            while not _install(first, ancestry):
                log.error("trying again in %.0f s", _PAUSE_S)
                _sleep(_PAUSE_S, ancestry)
            for model in others:
                if not _install(model, ancestry):
                    log.error("going on without %s", os.path.basename(model))  # noqa: PTH119


def _leave(*_: object) -> NoReturn:
    sys.exit(0)


def _install(model: str, ancestry: ParentWatch) -> bool:
    """Return whether a model is there, unless it is none of the starter models."""
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
                _sleep(_POLL_S, ancestry)
        finally:
            # Also the registry's client that it runs.
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
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)


def _sleep(pause_s: float, ancestry: ParentWatch) -> None:
    """Pause; leave the process when nobody is left who started it."""
    deadline_s = time.monotonic() + pause_s
    while (left_s := deadline_s - time.monotonic()) > 0:
        if ancestry.is_gone():
            _leave()
        time.sleep(min(left_s, _POLL_S))


def _end_with(ancestry: ParentWatch) -> None:
    while not ancestry.is_gone():
        time.sleep(_POLL_S)
    # Made a group of its own by `_install`; this process is one of it.
    os.killpg(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Install the starter model named in the arguments; end with whoever has started this."""
    ancestry = ParentWatch(os.environ)
    threading.Thread(target=_end_with, args=(ancestry,), daemon=True).start()
    install.main()


if __name__ == "__main__":
    main()
