"""Renders a fleet as launchd jobs for macOS: one property list per process.

The jobs run the command lines of the Procfile, supervisors included. Nothing is loaded into
launchd here. Keys: launchd.plist(5).
"""

from __future__ import annotations

import os
import plistlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from deploy import ROOT
from deploy.run import process
from shared.fleet import load_fleet

_LABEL: Final = "local.mlxcel"
# A start that can never succeed ends the supervisor, and launchd retries: rarely enough to cost
# nothing, often enough to pick up a corrected fleet file.
_THROTTLE_S: Final = 30
# Longer than the supervisor waits for its child.
_EXIT_TIMEOUT_S: Final = 10


def render(folder: Path, config: Path, logs: Path) -> list[Path]:
    """Write the property lists of a fleet file into a folder and return their paths.

    Raises:
        ConfigError: the fleet file can't be used.
    """
    folder.mkdir(parents=True, exist_ok=True)
    logs.mkdir(parents=True, exist_ok=True)
    written = []
    for item in process.plan(load_fleet(config), sys.executable, config):
        path = folder / f"{_LABEL}.{item.name}.plist"
        path.write_bytes(plistlib.dumps(describe(item, logs, os.environ)))
        written.append(path)
    return written


def describe(item: process.Process, logs: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the property list of one process.

    Args:
        logs: folder of the log files.
        environ: source of PATH; that of launchd holds system folders only.
    """
    log = str(logs / f"{item.name}.log")
    return {
        "Label": f"{_LABEL}.{item.name}",
        "ProgramArguments": list(item.command),
        # `-m` searches it first.
        "WorkingDirectory": str(ROOT),
        "EnvironmentVariables": {"PATH": environ.get("PATH", os.defpath), "PYTHONUNBUFFERED": "1"},
        "StandardOutPath": log,
        "StandardErrorPath": log,
        "RunAtLoad": True,
        "KeepAlive": True,
        "ThrottleInterval": _THROTTLE_S,
        "ExitTimeOut": _EXIT_TIMEOUT_S,
        # Otherwise macOS limits CPU and disk use of a job.
        "ProcessType": "Interactive",
    }
