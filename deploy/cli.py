"""The command `mlxcel-server`: resolves every setting, then runs the fleet's processes.

They run under the same supervisors as with the Procfile, and read one fleet file in the run
directory, in which every flag and environment name is applied. deploy/entry.py starts this module.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from deploy import ROOT
from deploy.commands import launchd, parse
from deploy.run import preflight, process, resolution
from deploy.run.launcher import Launcher
from deploy.run.parent_watch import ORIGIN_ENV
from deploy.starter_models import install
from deploy.starter_models.archive import StarterError
from shared import rundir
from shared.config import add_arguments, resolve
from shared.declaration import ConfigError, entries
from shared.fleet import Fleet
from shared.kind import DEFAULT, KINDS
from shared.lifecycle import EXIT_PERMANENT, PermanentError
from shared.refusal import add_refusals, refuse_environment
from shared.settings import LaunchSettings

DEFAULT_CONFIG: Final = ROOT / "deploy" / "mlxcel.toml"
# A server that was just stopped may need this long to exit.
_LOCK_TIMEOUT_S: Final = 2.0
_KEEP_S: Final = 5.0

# The settings that `--help` lists first, as most people need no others.
_COMMON: Final = (
    "model",
    "alias",
    "host",
    "port",
    "api_key",
    "ctx_size",
    "parallel",
    *(
        entry.dest
        for kind in KINDS.values()
        for entry in entries(kind.settings)
        if kind.name != DEFAULT and entry.name in kind.models
    ),
)


class Subcommand(NamedTuple):
    """What follows `mlxcel-server NAME`. It gets its arguments and the default fleet file."""

    usage: str
    summary: str
    run: Callable[[Sequence[str], Path], None]


COMMANDS: Final[Mapping[str, Subcommand]] = {
    "launchd": Subcommand(
        "install",
        "run the server as a launchd job of macOS; also status, restart, uninstall",
        launchd.main,
    ),
    "parse": Subcommand(
        "--format NAME",
        "show the tool calls in a raw answer on standard input",
        lambda arguments, _: parse.main(arguments),
    ),
}


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of every flag."""
    parser = argparse.ArgumentParser(
        prog="mlxcel-server",
        # argparse would print all flags above the one line that names the error.
        usage="%(prog)s [-m MODEL | --config FILE] [options]; --help lists options and commands",
        description=_describe(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="Fleet file; deploy/sample.toml shows one."
    )
    add_arguments(parser, resolution.GROUPS, _COMMON)
    add_refusals(parser)
    return parser


def _describe() -> str:
    rows = [(f"{name} {command.usage}", command.summary) for name, command in COMMANDS.items()]
    width = max(len(words) for words, _ in rows)
    return "\n".join(
        (
            "Serve models on this machine over HTTP. Without -m and --config, small starter models",
            "are installed and served. A flag takes precedence over the environment, and both over",
            "the fleet file. A switch can be given as --NAME, --NAME=off or --no-NAME.",
            "",
            "commands:",
            *(f"  mlxcel-server {words:{width}}  {summary}" for words, summary in rows),
        )
    )


def prepare(options: argparse.Namespace, environ: Mapping[str, str]) -> Fleet:
    """Return the fleet to run, checked as far as possible before the start.

    Raises:
        ConfigError, PermanentError, StarterError: it can't run; the message is one line.
    """
    refuse_environment(environ)
    fleet = install.relocate(resolution.choose(options, environ, DEFAULT_CONFIG))
    settled = _choose_port(resolution.settle(fleet, options, environ))
    local = [entry for entry in settled.workers if not entry.remote]
    # Supervisors install the models of other kinds while text already answers.
    try:
        install.install_wanted(entry.options["model"] for entry in local if entry.kind == DEFAULT)
    except StarterError as failure:
        if not _has_installed(settled):
            raise
        print(f"error: {failure}; the other workers start without it", file=sys.stderr)
    resolution.check_models(settled, come_later=install.find)
    return settled


def _has_installed(fleet: Fleet) -> bool:
    """Return whether a worker can start without another install, and so can every required one."""

    def is_there(model: str) -> bool:
        starter = install.find(model)
        return starter is None or install.is_made(starter, install.cache_folder(), install.MODELS)

    startable = {entry.name: all(map(is_there, entry.models)) for entry in fleet.workers}
    return any(startable.values()) and all(
        startable[entry.name] for entry in fleet.workers if entry.required
    )


def _choose_port(fleet: Fleet) -> Fleet:
    """Return the fleet with a port that is free; for port 0, any free one."""
    gateway = fleet.gateway
    if gateway["port"]:
        preflight.check_port(gateway["host"], gateway["port"])
        return fleet
    port = preflight.find_port(gateway["host"])
    return dataclasses.replace(fleet, gateway={**gateway, "port": port})


def run(fleet: Fleet, environ: Mapping[str, str], log_file: Path | None = None) -> int:
    """Run a settled fleet until it is stopped; return the exit code of this process.

    Raises:
        PermanentError: another server has the port, or the log file can't be opened.
    """
    port = fleet.gateway["port"]
    folder = rundir.open_run_directory(port)
    # Of two servers that start at the same time, one must not replace the other's fleet file.
    lock = rundir.Lock(folder / "launch.lock")
    if not lock.acquire(_LOCK_TIMEOUT_S):
        raise PermanentError(preflight.say_running(port))
    config = folder / "fleet.toml"
    rundir.write_private(config, resolution.render(fleet))
    threading.Thread(target=keep_files, args=(lock, config), daemon=True).start()
    bare = resolution.strip(environ) | {ORIGIN_ENV: str(os.getpid())}
    processes = process.plan(fleet, sys.executable, config)
    # `-m` looks for modules in the working folder first, and the user's own may have a gateway.py.
    # All paths that the processes get are absolute.
    announce = [sys.executable, "-m", "deploy.run.announce", "--config", str(config)]
    try:
        fd = sys.stdout.fileno()
        return Launcher(processes, bare, ROOT, fd, announce, log_file).run()
    finally:
        config.unlink(missing_ok=True)


def keep_files(lock: rundir.Lock, config: Path) -> None:
    """Keep the launcher's files from being swept; supervisors put the fleet file back."""
    while True:
        time.sleep(_KEEP_S)
        # Another attempt follows.
        with contextlib.suppress(OSError, rundir.RunDirectoryError):
            lock.keep()
            rundir.touch(config)


def _find_log_file(name: str) -> Path | None:
    return Path(name).expanduser().absolute() if name else None


def main(arguments: Sequence[str] | None = None) -> None:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] in COMMANDS:
        COMMANDS[words[0]].run(words[1:], DEFAULT_CONFIG)
        return
    try:
        options = build_parser().parse_args(words)
        launch = resolve(LaunchSettings, options, os.environ, {}, "launcher")
        fleet = prepare(options, os.environ)
        code = run(fleet, os.environ, _find_log_file(launch.log_file))
    except (
        ConfigError,
        PermanentError,
        StarterError,
        rundir.RunDirectoryError,
    ) as failure:
        print(f"error: {failure}", file=sys.stderr)
        sys.exit(EXIT_PERMANENT)
    sys.exit(code)
