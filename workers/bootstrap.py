"""The start of a worker process, whatever its kind: command line, settings, address, lock.

Runs before anything heavy is imported or started. Any error ends the process permanently, with
one line.
"""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from shared import lifecycle, logs, rundir
from shared.config import add_arguments, resolve
from shared.declaration import ConfigError
from shared.fleet import WorkerEntry, load_fleet
from shared.kind import KINDS
from shared.settings import GatewaySettings
from workers import missing_package

# Before the modules of a kind are imported; `from workers import bootstrap` sorts before them.
missing_package.set_hook()

_LOCK_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class WorkerConfig:
    """What one process is configured to serve.

    Attributes:
        folder: base of the fleet file's relative paths.
        settings: of the entry's kind.
        address: gRPC address to listen on.
        memory_share: share of the device's memory that the process may use, 0 to 1.
        lock: of the address, if it is a socket.
    """

    folder: Path
    entry: WorkerEntry
    settings: Any
    address: str
    memory_share: float
    lock: rundir.Lock | None = None


def start(
    program: str,
    arguments: Sequence[str],
    check: Callable[[Any, Path], None],
) -> WorkerConfig:
    """Read this process's configuration, set up its log and lock its address.

    Args:
        program: module that is run, e.g. "workers.text".
        check: called with settings and fleet folder; raises ConfigError for settings that can't
            work.
    """
    try:
        config = read_config(program, arguments)
        set_environment(config.entry.kind, os.environ)
        logs.set_up(config.entry.name, config.settings.log_level)
        # A large model has more than 160 files, and macOS allows 256.
        lifecycle.raise_file_limit()
        check(config.settings, config.folder)
        lock = lock_address(config.address)
    except (ConfigError, rundir.RunDirectoryError, lifecycle.PermanentError) as failure:
        lifecycle.exit_permanently(str(failure))
    return replace(config, lock=lock)


def set_environment(kind: str, environ: MutableMapping[str, str]) -> None:
    """Set the variables of a kind that are not set."""
    for name, value in KINDS[kind].environment:
        environ.setdefault(name, value)


def read_config(program: str, arguments: Sequence[str]) -> WorkerConfig:
    """Return the configuration of the worker that a command line names.

    Raises:
        ConfigError: the fleet has no such worker, or a setting can't be read.
    """
    kinds = {name: kind.settings for name, kind in KINDS.items() if kind.module == program}
    options = _parse(program, kinds, arguments)
    fleet = load_fleet(options.config)
    entry = fleet.worker(options.name)
    if entry.kind not in kinds:
        raise ConfigError(f"{program} does not serve {entry.name!r}: its kind is {entry.kind}")
    settings: Any = resolve(kinds[entry.kind], options, os.environ, entry.options, entry.name)
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
    parser.add_argument("--name", default=next(iter(kinds)), help="worker of that file to run")
    parser.add_argument("--replica", type=int, default=0, help="number of its replica")
    add_arguments(parser, kinds.values())
    return parser.parse_args(arguments)


def exit_process(code: int) -> NoReturn:
    """End the process at once; a thread that computes must not delay it."""
    logging.shutdown()
    os._exit(code)


def lock_address(address: str) -> rundir.Lock | None:
    """Lock a unix socket path for this process; None for another address.

    Raises:
        PermanentError: another process has locked it.
    """
    if not address.startswith("unix:"):
        return None
    path = Path(address.removeprefix("unix:"))
    lock = rundir.Lock(path.with_suffix(".lock"))
    if not lock.acquire(_LOCK_TIMEOUT_S):
        raise lifecycle.PermanentError(
            f"another worker serves {path}; stop the server that runs on this port"
        )
    return lock
