"""Which processes a fleet consists of, and their command lines.

The Procfile, `mlxcel-server` and the launchd files all render what `plan` returns. Pure.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterable
from pathlib import Path

from shared.fleet import Fleet, WorkerEntry
from shared.kind import KINDS

_HEADER = """\
# The processes of the default fleet, deploy/mlxcel.toml; `make docs` writes this file.
# Each line runs under a supervisor, since honcho ends everything when one process exits.
"""


@dataclasses.dataclass(frozen=True)
class Process:
    """One supervised process."""

    name: str
    command: tuple[str, ...]

    @property
    def line(self) -> str:
        """For a shell; `exec`, so that signals reach the supervisor itself."""
        return f"exec {shlex.join(self.command)}"


def plan(fleet: Fleet, python: str, config: Path) -> tuple[Process, ...]:
    """Return the processes of a fleet that run on this machine: the gateway first.

    Args:
        python: interpreter to run them with.
        config: the fleet file, as it stands in their command lines.
    """
    processes = [_supervised("gateway", python, config, "gateway")]
    for entry in fleet.workers:
        if not entry.remote:
            processes += _plan_worker(entry, python, config)
    return tuple(processes)


def _plan_worker(entry: WorkerEntry, python: str, config: Path) -> Iterable[Process]:
    flags = ("--required",) if entry.required else ()
    for replica, name in enumerate(entry.processes):
        words = ("--name", entry.name, *(("--replica", str(replica)) if replica else ()))
        yield _supervised(name, python, config, KINDS[entry.kind].module, words, flags)


def _supervised(
    name: str,
    python: str,
    config: Path,
    module: str,
    words: Iterable[str] = (),
    flags: Iterable[str] = (),
) -> Process:
    where = ("--config", str(config))
    supervisor = (python, "-m", "deploy.run.supervise", "--name", name, *where, *flags)
    return Process(name, (*supervisor, "--", python, "-m", module, *where, *words))


def render_procfile(processes: Iterable[Process]) -> str:
    """Return the text of a Procfile."""
    return _HEADER + "".join(f"{process.name}: {process.line}\n" for process in processes)
