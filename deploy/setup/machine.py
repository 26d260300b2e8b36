"""Whether this machine and this Python can run the server at all.

Owns the description of the machine and the sentences that say what to do. `find_fault` is pure.
Standard library only: it runs on the system's Python.
"""

from __future__ import annotations

import dataclasses
import platform
import subprocess
import sys
from typing import Final

_OLDEST_MACOS: Final = (14, 0)
_SYSCTL: Final = "/usr/sbin/sysctl"


@dataclasses.dataclass(frozen=True)
class Machine:
    """What decides whether the packages have wheels.

    Attributes:
        system: sys.platform.
        architecture: of the interpreter, as platform.machine() names it.
        is_translated: the interpreter runs under Rosetta.
        macos: version; empty elsewhere or when it is unknown.
    """

    system: str
    architecture: str
    is_translated: bool = False
    macos: tuple[int, ...] = ()


def find_fault(machine: Machine) -> str | None:
    """Return what is wrong with a machine and what to do, or None."""
    if machine.system != "darwin":
        return None
    if machine.architecture != "arm64":
        if machine.is_translated:
            return (
                f"{sys.executable} is an Intel Python that runs under Rosetta; install one for "
                "Apple silicon and name it: make run PYTHON=/opt/homebrew/bin/python3"
            )
        return "this Mac has an Intel processor; MLX needs Apple silicon"
    if machine.macos and machine.macos < _OLDEST_MACOS:
        version = ".".join(map(str, machine.macos))
        return f"this is macOS {version}; MLX needs macOS 14 or newer: update macOS"
    return None


def describe() -> Machine:
    """Return the machine that this process runs on."""
    system: str = sys.platform
    if system != "darwin":
        return Machine(system, platform.machine())
    # Not platform.mac_ver(): old interpreters are told 10.16.
    version = parse_version(_read_sysctl("kern.osproductversion"))
    # Intel Macs do not know the name.
    is_translated = _read_sysctl("sysctl.proc_translated") == "1"
    return Machine(system, platform.machine(), is_translated, version)


def parse_version(text: str) -> tuple[int, ...]:
    """Return the numbers of a version such as "15.6.1"; empty if it is none."""
    parts = text.split(".")
    return tuple(map(int, parts)) if all(part.isdigit() for part in parts) else ()


def _read_sysctl(name: str) -> str:
    """Return the value of a system variable; empty if it is unknown."""
    command = [_SYSCTL, "-n", name]
    try:
        answer = subprocess.run(command, check=False, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip()
