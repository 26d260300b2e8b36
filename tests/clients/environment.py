"""The environments of the clients: one of Python, one of Node, in .cache/clients.

Owns their installation from the pinned lists of this folder, and running programs in them. They are
made anew when a list changes. Runs on the caller's thread.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.checkpoint import ROOT

HERE: Final = Path(__file__).resolve().parent
FOLDER: Final = ROOT / ".cache" / "clients"
PYTHON: Final = FOLDER / "python" / "bin" / "python"
NODE_MODULES: Final = FOLDER / "node" / "node_modules"
_REQUIREMENTS: Final = HERE / "requirements.txt"
_PACKAGES: Final = HERE / "package.json"


def install() -> None:
    """Install the clients, unless that was done with the same lists."""
    _install_once(FOLDER / "python", _REQUIREMENTS, _install_python)
    _install_once(FOLDER / "node", _PACKAGES, _install_node)


def _install_once(folder: Path, listed: Path, work: Callable[[Path], None]) -> None:
    stamp = folder / "installed"
    digest = hashlib.sha256(listed.read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text() == digest:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    work(folder)
    stamp.write_text(digest)


def _install_python(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    # The list is complete, so that nothing has to be resolved.
    command = [PYTHON, "-m", "pip", "install", "--quiet", "--no-deps", "-r", _REQUIREMENTS]
    subprocess.run(command, check=True)


def _install_node(folder: Path) -> None:
    shutil.copyfile(_PACKAGES, folder / "package.json")
    command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    subprocess.run(command, cwd=folder, check=True)


def read_version(package: str) -> str:
    """Return the installed version of a package of either environment."""
    path = NODE_MODULES / package / "package.json"
    if path.is_file():
        return str(json.loads(path.read_text())["version"])
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    found = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def run_client(
    command: Sequence[str | Path], environ: Mapping[str, str], folder: Path, timeout_s: float
) -> str:
    """Return what a client prints.

    Raises:
        AssertionError: it failed; what it printed is the message.
    """
    done = subprocess.run(
        command,
        env=environ,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
