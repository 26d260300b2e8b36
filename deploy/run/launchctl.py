"""Loads launchd jobs, and reads their state, through the program launchctl of macOS.

Owns its command lines and what its answers mean. Source: launchctl(1).
"""

from __future__ import annotations

import plistlib
import re
import subprocess
from pathlib import Path
from typing import Final

_TIMEOUT_S: Final = 30
# Answers of `bootstrap` and `bootout` for a job that is loaded already, or is not.
_IS_LOADED: Final = (17, 37)
_NOT_LOADED: Final = (3, 113)
# Answers for a domain that does not exist now: nobody is logged in at the screen.
_NO_DOMAIN: Final = (5, 125)
_FIELDS: Final = re.compile(r"^\t(state|pid|runs|last exit code) = (.+)$", re.MULTILINE)


class LaunchctlError(Exception):
    """A job can't be loaded or found; the message is one line for the user."""


def install(domain: str, path: Path) -> None:
    """Load a job and start it; one of the same label is replaced.

    Raises:
        LaunchctlError: launchd refuses it.
    """
    remove(domain, path)
    code, text = _run("bootstrap", domain, str(path))
    if code in _NO_DOMAIN:
        raise LaunchctlError(
            f"launchd has no domain {domain} now ({text}); without a login at the screen, use "
            "--as user, or --as daemon to start before any login"
        )
    if code and code not in _IS_LOADED:
        raise LaunchctlError(f"launchctl bootstrap {domain} {path}: {text}")


def remove(domain: str, path: Path) -> bool:
    """Stop a job and unload it; return whether it was loaded.

    Raises:
        LaunchctlError: launchd refuses.
    """
    code, text = _run("bootout", f"{domain}/{_read_label(path)}")
    if code in _NOT_LOADED or code in _NO_DOMAIN:
        return False
    if code:
        raise LaunchctlError(f"launchctl bootout {domain}/{_read_label(path)}: {text}")
    return True


def restart(domain: str, path: Path) -> None:
    """Stop a job's process and start it again.

    Raises:
        LaunchctlError: it is not loaded.
    """
    code, text = _run("kickstart", "-k", f"{domain}/{_read_label(path)}")
    if code:
        raise LaunchctlError(f"launchctl kickstart {domain}/{_read_label(path)}: {text}")


def read_state(domain: str, path: Path) -> dict[str, str]:
    """Return `state`, `pid`, `runs` and `last exit code` of a job; empty if it is not loaded."""
    code, text = _run("print", f"{domain}/{_read_label(path)}")
    return {} if code else dict(_FIELDS.findall(text))


def _read_label(path: Path) -> str:
    return str(plistlib.loads(path.read_bytes())["Label"])


def _run(*words: str) -> tuple[int, str]:
    """Return the exit code and what was printed."""
    try:
        done = subprocess.run(
            ("launchctl", *words), check=False, capture_output=True, text=True, timeout=_TIMEOUT_S
        )
    except FileNotFoundError:
        raise LaunchctlError("launchctl is not installed: launchd runs on macOS only") from None
    except subprocess.TimeoutExpired:
        raise LaunchctlError(f"launchctl {words[0]} did not end in {_TIMEOUT_S} s") from None
    return done.returncode, (done.stdout + done.stderr).strip()
