"""A worker process's place in the fleet: its command line, its settings, its address, its lock.

The same for every kind of worker; what is done there is the kind's own. Runs before anything
heavy is imported or started, and whatever is wrong ends the process for good with one line.
"""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from shared import lifecycle, logs, rundir
from shared.config import add_arguments, resolve
from shared.declaration import ConfigError
from shared.fleet import WorkerEntry, load_fleet
from shared.settings import GatewaySettings

_LOCK_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class WorkerConfig:
    """Where a process stands.

    Attributes:
        folder: where relative paths of the fleet file start.
        settings: of the entry's kind.
        address: gRPC address to listen at.
        memory_share: part of the device's memory that the process may use.
    """

    folder: Path
    entry: WorkerEntry
    settings: Any
    address: str
    memory_share: float


def take(
    program: str,
    kinds: Mapping[str, type],
    arguments: Sequence[str],
    check: Callable[[Any, Path], None],
) -> WorkerConfig:
    """Return this process's place, with its log set up and its address locked.

    Args:
        program: module that is run, e.g. "workers.text".
        kinds: settings group of each kind that the program serves.
        check: refuses settings that can't work, with a ConfigError; gets the fleet's folder too.
    """
    try:
        place = find(program, kinds, arguments)
        logs.set_up(place.entry.name, place.settings.log_level)
        check(place.settings, place.folder)
        lock_address(place.address)
    except (ConfigError, rundir.RunDirectoryError, lifecycle.PermanentError) as failure:
        lifecycle.exit_permanently(str(failure))
    return place


def find(program: str, kinds: Mapping[str, type], arguments: Sequence[str]) -> WorkerConfig:
    """Return the place that a command line means.

    Raises:
        ConfigError: the fleet has none such, or a setting can't be read.
    """
    options = _parse(program, kinds, arguments)
    fleet = load_fleet(options.config)
    entry = fleet.worker(options.name)
    if entry.kind not in kinds:
        raise ConfigError(f"{program} does not serve {entry.name!r}: its kind is {entry.kind}")
    settings = resolve(kinds[entry.kind], options, os.environ, entry.options, entry.name)
    none = argparse.Namespace()
    port = resolve(GatewaySettings, none, os.environ, fleet.gateway, "gateway").port
    addresses = entry.addresses(rundir.open_run_directory(port))
    if not 0 <= options.replica < len(addresses):
        raise ConfigError(f"--replica: {entry.name} has {len(addresses)} replicas")
    share = fleet.memory_share(entry)
    return WorkerConfig(fleet.folder, entry, settings, addresses[options.replica], share)


def _parse(program: str, kinds: Mapping[str, type], arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m {program}")
    parser.add_argument("--config", type=Path, required=True, help="fleet file")
    parser.add_argument("--name", default=next(iter(kinds)), help="which worker of it to be")
    parser.add_argument("--replica", type=int, default=0, help="which of its replicas")
    add_arguments(parser, kinds.values())
    return parser.parse_args(arguments)


def leave(code: int) -> NoReturn:
    """End the process, whatever its threads are doing: one that computes must not hold it up."""
    logging.shutdown()
    os._exit(code)


def lock_address(address: str) -> None:
    """Make sure that no other process listens on a unix socket path.

    Raises:
        PermanentError: one does.
    """
    if not address.startswith("unix:"):
        return
    path = Path(address.removeprefix("unix:"))
    if not rundir.Lock(path.with_suffix(".lock")).acquire(_LOCK_TIMEOUT_S):
        raise lifecycle.PermanentError(
            f"another worker serves {path}; stop the server that runs on this port"
        )
