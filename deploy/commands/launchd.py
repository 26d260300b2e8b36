"""The command `mlxcel-server launchd`: runs the server as a launchd job of macOS.

Owns the arguments and the output; deploy/run/launchd.py renders the property lists, and
deploy/run/launchctl.py loads them.
"""

from __future__ import annotations

import argparse
import os
import pwd
import sys
from collections.abc import Sequence
from pathlib import Path

from deploy.run import launchctl, launchd
from shared.declaration import ConfigError

_ACTIONS = {
    "render": "write the property list, and load nothing",
    "install": "write the property list where launchd looks for it, and start the job",
    "status": "print the state of the installed jobs",
    "restart": "stop the installed jobs and start them again",
    "uninstall": "stop the installed jobs and delete their property lists",
}
_PLACES = {
    "agent": "while you are logged in at the screen",
    "user": "also without a screen, after a login over ssh",
    "daemon": "from the start of the Mac, under your account; needs sudo",
}


def main(arguments: Sequence[str], default: Path) -> None:
    """Run `mlxcel-server launchd …`.

    Args:
        default: fleet file of one job per process without `--config`.
    """
    options = _build_parser().parse_args(arguments)
    try:
        account = _find_account(options.user)
        if options.action in ("render", "install"):
            _write(options, account, default)
        else:
            _manage(options, account)
    except (ConfigError, OSError, launchctl.LaunchctlError) as failure:
        sys.exit(f"error: {failure}")


def _find_account(name: str | None) -> launchd.Account:
    """Return the account that the jobs run under; with sudo, that of who called it.

    Raises:
        ConfigError: there is no such account.
    """
    try:
        name = name or os.environ.get("SUDO_USER")
        found = pwd.getpwnam(name) if name else pwd.getpwuid(os.getuid())
    except KeyError:
        raise ConfigError(f"there is no account {name or os.getuid()}") from None
    return launchd.Account(found.pw_name, found.pw_uid, Path(found.pw_dir))


def _write(options: argparse.Namespace, account: launchd.Account, default: Path) -> None:
    """Write the jobs, and load them if that was asked for."""
    where = options.folder or launchd.folder(options.place, account)
    logs = (options.logs or account.home / "Library" / "Logs" / "mlxcel").absolute()
    config = options.config.absolute() if options.config else None
    if config is not None and not config.is_file():
        raise ConfigError(f"{config}: no such file")
    place, environ = options.place, os.environ
    if options.per_process:
        described = launchd.describe_processes(place, account, config or default, logs, environ)
        jobs = list(described)
    else:
        jobs = [launchd.describe_server(place, account, config, logs, environ)]
    logs.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        os.chown(logs, account.uid, -1)
    paths = [launchd.write(job, where) for job in jobs]
    for path in paths:
        print(path)
    _warn(account)
    domain = launchd.domain(options.place, account)
    if options.action == "install":
        for path in paths:
            launchctl.install(domain, path)
        print(f"started in {domain}; logs are in {logs}")
    else:
        print(f"To start: mlxcel-server launchd install --as {options.place}")


def _warn(account: launchd.Account) -> None:
    """Print what a job lacks in comparison with a start in a terminal."""
    for name in launchd.find_secrets(os.environ):
        print(
            f"warning: {name} is not written to the job, whose file others can read; "
            "use --api-key-file in the fleet file, or the hub's token file",
            file=sys.stderr,
        )
    if folder := launchd.find_protected(account.home):
        print(f"warning: macOS lets no job read {folder}; install elsewhere", file=sys.stderr)


def _manage(options: argparse.Namespace, account: launchd.Account) -> None:
    """Print the state of installed jobs, restart or remove them.

    Raises:
        ConfigError: none is installed.
    """
    where = options.folder or launchd.folder(options.place, account)
    domain = launchd.domain(options.place, account)
    # Others have jobs in this folder as well.
    paths = sorted(where.glob(f"{launchd.PREFIX}.*.plist"))
    if not paths:
        raise ConfigError(f"no job is installed in {where}; see `mlxcel-server launchd install`")
    for path in paths:
        if options.action == "status":
            state = launchctl.read_state(domain, path) or {"state": "not loaded"}
            print(f"{path.stem}: {', '.join(f'{name} {text}' for name, text in state.items())}")
        elif options.action == "restart":
            launchctl.restart(domain, path)
        else:
            launchctl.remove(domain, path)
            path.unlink()
            print(f"removed {path}")


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mlxcel-server launchd",
        description="Run the server as a launchd job of macOS, which starts it again if it ends.",
        epilog="places: " + "; ".join(f"{name}: {text}" for name, text in _PLACES.items()),
    )
    actions = parser.add_subparsers(dest="action", required=True)
    for name, text in _ACTIONS.items():
        action = actions.add_parser(name, help=text, description=text.capitalize() + ".")
        action.add_argument(
            "folder", type=Path, nargs="?", help="of the property lists (default: launchd's)"
        )
        action.add_argument(
            "--as",
            dest="place",
            choices=tuple(_PLACES),
            default="agent",
            help="when it runs (default: %(default)s)",
        )
        action.add_argument("--user", help="account that a daemon runs under (default: yours)")
        if name in ("render", "install"):
            _add_job_arguments(action)
    return parser


def _add_job_arguments(action: argparse.ArgumentParser) -> None:
    action.add_argument("--config", type=Path, help="fleet file (default: the starter models)")
    action.add_argument("--logs", type=Path, help="folder of the log files")
    action.add_argument(
        "--per-process",
        action="store_true",
        help="one job per process of the fleet file instead of one for all; their logs grow "
        "without limit",
    )
