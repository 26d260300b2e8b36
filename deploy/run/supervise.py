"""The command behind every line of the Procfile: runs one process under a supervisor.

Owns the command line and what precedes the first start of the process; supervisor.py keeps it
running.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from deploy.run.fleet_copy import FleetCopy
from deploy.run.health import SupervisionLimits
from deploy.run.installation import install_models
from deploy.run.parent_watch import ParentWatch
from deploy.run.supervisor import Supervisor
from deploy.run.worker_start import WorkerStart
from deploy.setup import openblas
from shared import logs, rundir
from shared.config import add_arguments, resolve
from shared.declaration import ConfigError
from shared.fleet import Fleet, load_fleet
from shared.lifecycle import EXIT_PERMANENT
from shared.settings import GatewaySettings, SupervisorSettings


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="deploy.run.supervise", description=__doc__)
    parser.add_argument("--name", required=True, help="of the process, for the log")
    parser.add_argument("--config", type=Path, required=True, help="fleet file")
    parser.add_argument("--required", action="store_true", help="end if the worker can't start")
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
        run_directory = _open_run_directory(fleet)
        worker_start = _watch_worker(fleet, options, run_directory)
        copy = FleetCopy(options.config, run_directory)
    except (ConfigError, rundir.RunDirectoryError) as failure:
        print(f"error: {failure}", file=sys.stderr)
        sys.exit(EXIT_PERMANENT)
    if worker_start is not None:
        install_models(fleet, options.name, parent_watch, worker_start.report)
    environ = openblas.preload(os.environ, openblas.find())
    limits = SupervisionLimits(step_timeout_s=settings.step_timeout_s)
    supervisor = Supervisor(
        options.command, environ, limits, parent_watch, worker_start, copy.restore
    )
    code = supervisor.run()
    if worker_start is not None and code == 0:
        worker_start.clear()
    sys.exit(code)


def _open_run_directory(fleet: Fleet) -> Path:
    """Return the run directory, whose port may come from the environment."""
    none = argparse.Namespace()
    gateway = resolve(GatewaySettings, none, os.environ, fleet.gateway, "gateway")
    return rundir.open_run_directory(gateway.port)


def _watch_worker(
    fleet: Fleet, options: argparse.Namespace, run_directory: Path
) -> WorkerStart | None:
    """Return what follows the starts of a worker; None for the gateway."""
    if not any(options.name in entry.processes for entry in fleet.workers):
        return None
    return WorkerStart(
        fleet, options.name, run_directory, options.config, required=options.required
    )


if __name__ == "__main__":
    main()
