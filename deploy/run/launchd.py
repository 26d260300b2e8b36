"""Renders launchd jobs for macOS: one for the whole server, or one per process of a fleet.

Owns the property lists and where they belong; launchctl.py loads them. Keys: launchd.plist(5).
Secrets of the environment are left out, since property lists are readable.
"""

from __future__ import annotations

import os
import plistlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from deploy import ROOT
from deploy.run import process, resolution
from shared.declaration import ConfigError, entries
from shared.fleet import load_fleet

Place = Literal["agent", "user", "daemon"]

PREFIX: Final = "local.mlxcel"
SERVER: Final = f"{PREFIX}.server"
# A start that can never succeed ends the job, and launchd retries: rarely enough to cost
# nothing, often enough to pick up a corrected fleet file.
_THROTTLE_S: Final = 30
# Longer than the launcher waits for its processes, and a supervisor for its child.
_EXIT_TIMEOUT_S: Final = 15
# A model may have hundreds of files; the default is 256.
_FILES: Final = 65_536
# Where the session of a login may be: at the screen, over ssh, or neither.
_SESSIONS: Final[Mapping[Place, Sequence[str]]] = {
    "agent": ("Aqua", "Background", "StandardIO"),
    "user": ("Background",),
    "daemon": (),
}
# Variables of the model hub's library that are no secrets.
_HUB: Final = ("HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_ENDPOINT")
_HUB_SECRETS: Final = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
# Folders that macOS lets no background process read unless the user agrees.
_PROTECTED: Final = ("Desktop", "Documents", "Downloads")


@dataclass(frozen=True)
class Account:
    """Whose job it is."""

    name: str
    uid: int
    home: Path


def domain(place: Place, account: Account) -> str:
    """Return the launchd domain: at the screen, without one, or of the system."""
    domains = {"agent": f"gui/{account.uid}", "user": f"user/{account.uid}", "daemon": "system"}
    return domains[place]


def folder(place: Place, account: Account) -> Path:
    """Return where launchd looks for the jobs of a place when a user logs in or the Mac starts."""
    if place == "daemon":
        return Path("/Library/LaunchDaemons")
    return account.home / "Library" / "LaunchAgents"


def describe_server(
    place: Place, account: Account, config: Path | None, logs: Path, environ: Mapping[str, str]
) -> dict[str, Any]:
    """Return the job that runs `mlxcel-server`.

    Args:
        config: an absolute path; None: the default fleet.
        logs: folder of the log file, which the launcher rotates.
    """
    words = ("--config", str(config)) if config is not None else ()
    log = ("--log-file", str(logs / "server.log"))
    command = (sys.executable, "-m", "deploy.entry", "deploy.cli", *words, *log)
    # What is written before the launcher runs, such as a missing interpreter.
    return _describe(SERVER, command, logs / "launchd.log", place, account, environ)


def describe_processes(
    place: Place, account: Account, config: Path, logs: Path, environ: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield a job for each process of a fleet file, which runs the command line of the Procfile.

    Raises:
        ConfigError: the fleet file can't be used, or names differ only in case.
    """
    items = process.plan(load_fleet(config), sys.executable, config)
    if len({item.name.lower() for item in items}) < len(items):
        raise ConfigError("names of workers must differ in more than upper and lower case")
    for item in items:
        label, log = f"{PREFIX}.{item.name}", logs / f"{item.name}.log"
        yield _describe(label, item.command, log, place, account, environ)


def _describe(
    label: str,
    command: Sequence[str],
    log: Path,
    place: Place,
    account: Account,
    environ: Mapping[str, str],
) -> dict[str, Any]:
    job: dict[str, Any] = {
        "Label": label,
        "ProgramArguments": list(command),
        # `-m` searches it first.
        "WorkingDirectory": str(ROOT),
        "EnvironmentVariables": _carry(environ) | {"HOME": str(account.home)},
        "StandardOutPath": str(log),
        "StandardErrorPath": str(log),
        "RunAtLoad": True,
        "KeepAlive": True,
        "ThrottleInterval": _THROTTLE_S,
        "ExitTimeOut": _EXIT_TIMEOUT_S,
        "SoftResourceLimits": {"NumberOfFiles": _FILES},
        # Otherwise macOS limits CPU and disk use of a job.
        "ProcessType": "Interactive",
    }
    if sessions := _SESSIONS[place]:
        job["LimitLoadToSessionType"] = list(sessions)
    if place == "daemon":
        job["UserName"] = account.name
    return job


def _carry(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a job gets; those of launchd have a PATH of system folders only."""
    settings = {name for name, is_secret in _setting_variables() if not is_secret}
    carried = {name: environ[name] for name in sorted(settings | {*_HUB}) if name in environ}
    return carried | {"PATH": environ.get("PATH", os.defpath), "PYTHONUNBUFFERED": "1"}


def find_secrets(environ: Mapping[str, str]) -> list[str]:
    """Return the names of variables that a job does not get although the server reads them."""
    secrets = {name for name, is_secret in _setting_variables() if is_secret}
    return sorted(name for name in secrets | {*_HUB_SECRETS} if name in environ)


def _setting_variables() -> Iterator[tuple[str, bool]]:
    """Yield each variable of a setting, and whether it is a secret."""
    for group in resolution.GROUPS:
        for entry in entries(group):
            for name in entry.declaration.env:
                yield name, entry.declaration.secret


def find_protected(home: Path) -> Path | None:
    """Return the folder with this program that macOS keeps background processes from, if any."""
    protected = [home / name for name in _PROTECTED]
    return next((path for path in protected if ROOT.is_relative_to(path)), None)


def write(job: Mapping[str, Any], target: Path) -> Path:
    """Write a property list under its label, which launchd wants, and return its path."""
    target.mkdir(parents=True, exist_ok=True)
    path = target / f"{job['Label']}.plist"
    path.write_bytes(plistlib.dumps(dict(job)))
    # launchd refuses one that others may write.
    path.chmod(0o644)
    return path
