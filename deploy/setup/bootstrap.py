"""Sets up the virtual environment that everything else runs in.

Runs on the system's Python with the standard library alone. A stamp file in the environment
names what is installed, with a hash of the files that chose it, so that a second call takes no
time. Owns `.venv` and, on Debian as root, a few system packages; models are installed by
deploy/starter_models/install.py.
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
from deploy.setup import machine, openblas
from deploy.setup.progress import Progress, Step
from shared.kind import KINDS, SystemPackage, list_extras

_LOG: Final = ".cache/set-up.log"
_SOURCES: Final = ("pyproject.toml", "constraints.txt")
_REDIS: Final = SystemPackage("redis-server", "the tests that need one fail", "redis")


class SetUpError(Exception):
    """The environment can't be made. The message says what to do."""


@dataclasses.dataclass(frozen=True)
class EnvironmentStamp:
    """What is installed in a virtual environment.

    Attributes:
        source: hash of the files that choose the packages.
        folder: of the environment; its scripts hold the path, so a moved one is made anew.
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
    """Return the stamp of an environment, or None without a readable one."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return EnvironmentStamp(found["source"], found["folder"], tuple(found["extras"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def runs(interpreter: Path) -> bool:
    """Return whether an interpreter starts; an upgrade may have removed what it links to."""
    try:
        return subprocess.run([interpreter, "-c", ""], check=False).returncode == 0
    except OSError:
        return False


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder; a second set-up waits for it."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def set_up(root: Path, extras: Sequence[str], folder: str = ".venv") -> None:
    """Make the environment in `folder` hold the project with `extras`, in place.

    Raises:
        SetUpError: a step failed.
    """
    venv = root / folder
    stamp_path = venv / "mlxcel-stamp.json"
    if (fault := machine.find_fault(machine.describe())) is not None:
        raise SetUpError(fault)
    with only_one(root):
        wanted = EnvironmentStamp(fingerprint(root), str(venv), tuple(sorted(extras)))
        found = read_stamp(stamp_path)
        is_usable = found is not None and runs(venv / "bin" / "python")
        if found is not None and is_usable and found.covers(wanted):
            return
        if found is not None and not is_usable:
            print(f"The Python of {venv} is gone; the environment is made again.", flush=True)
        progress = Progress(root / _LOG)
        if found is not None and is_usable and found.folder == wanted.folder:
            extras = sorted({*found.extras, *extras})
        else:
            _create(venv, progress)
        stamp_path.unlink(missing_ok=True)
        _install_openblas(progress)
        _install_programs(extras, progress)
        _install_packages(root, venv, extras, progress)
        done = dataclasses.replace(wanted, extras=tuple(extras))
        stamp_path.write_text(json.dumps(dataclasses.asdict(done)), encoding="utf-8")


def _create(venv: Path, progress: Progress) -> None:
    with progress.step(f"Virtual environment (Python {sys.version.split()[0]})") as step:
        if venv.exists():
            shutil.rmtree(venv)
        if not _has_ensurepip():
            name = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
            _install_debian_package(name, step)
        if step.run([sys.executable, "-m", "venv", str(venv)]) != 0:
            raise SetUpError(
                f"{sys.executable} can't make a virtual environment; on Debian and Ubuntu: "
                "apt-get install python3-venv"
            )


def _has_ensurepip() -> bool:
    """Return whether this Python can put pip into a new environment.

    Debian has the module in a package of its own, python3-venv.
    """
    probe = [sys.executable, "-c", "import ensurepip"]
    return subprocess.run(probe, check=False, stderr=subprocess.DEVNULL).returncode == 0


def _install_openblas(progress: Progress) -> None:
    """Install OpenBLAS on Linux; without it the server works, slowly."""
    if sys.platform != "linux" or openblas.find() is not None:
        return
    package = SystemPackage(openblas.DEBIAN_PACKAGE, "models run many times slower", "openblas")
    _install_program(package, progress)


def _install_programs(extras: Sequence[str], progress: Progress) -> None:
    wanted = [
        program for kind in KINDS.values() if kind.extra in extras for program in kind.programs
    ]
    if "dev" in extras:
        wanted.append(_REDIS)
    for program in dict.fromkeys(wanted):
        if shutil.which(program.name) is None:
            _install_program(program, progress)


def _install_program(package: SystemPackage, progress: Progress) -> None:
    """Install a program where that needs no password; else say how to, in one line."""
    on_mac = sys.platform == "darwin"
    how = f"brew install {package.formula}" if on_mac else f"apt-get install {package.name}"
    warning = f"WARNING: not installed; {package.loss}. To install it: {how}"
    with_brew = on_mac and _agrees_to(how, package.loss)
    if not with_brew and not _can_install_debian_packages():
        print(f"==> {package.name}: {warning}", flush=True)
        return
    with progress.step(package.name) as step:
        if with_brew:
            is_done = step.run(["brew", "install", package.formula]) == 0
        else:
            is_done = _install_debian_package(package.name, step)
        if not is_done:
            step.warn(warning)


def _agrees_to(command: str, loss: str) -> bool:
    """Ask whether Homebrew may install a program; no without Homebrew or a terminal."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if not is_terminal or "CI" in os.environ or shutil.which("brew") is None:
        return False
    try:
        answer = input(f"Run `{command}`? Otherwise, {loss}. [y/N] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")


def _can_install_debian_packages() -> bool:
    return shutil.which("apt-get") is not None and os.geteuid() == 0


def _install_debian_package(name: str, step: Step) -> bool:
    """Return whether a Debian package could be installed; only root can."""
    if not _can_install_debian_packages():
        return False
    environ = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    # An update that fails for one source still leaves the lists of the others.
    step.run(["apt-get", "-q", "update"], environ)
    install = ["apt-get", "-q", "install", "-y", "--no-install-recommends", name]
    return step.run(install, environ) == 0


def _install_packages(root: Path, venv: Path, extras: Sequence[str], progress: Progress) -> None:
    pip = [str(venv / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install"]
    pip += ["-c", "constraints.txt"]
    with progress.step("Python packages") as step:
        # The pip that comes with older Pythons can't print its progress as lines.
        install_pip = [*pip, "--upgrade", "pip"]
        install = [*pip, "--progress-bar", "raw", "-e", f".[{','.join(extras)}]"]
        for command in (install_pip, install):
            if step.run(command, folder=root) != 0:
                raise SetUpError("pip could not install the packages")


def main() -> None:
    parser = argparse.ArgumentParser(prog="deploy.setup.bootstrap", description=__doc__)
    kinds = list_extras()
    what = f"dependency groups of pyproject.toml to install besides {', '.join(kinds)}"
    parser.add_argument("extras", nargs="*", help=what)
    parser.add_argument("--folder", default=".venv", help="of the environment, in the checkout")
    options = parser.parse_args()
    try:
        set_up(ROOT, [*kinds, *options.extras], options.folder)
    except SetUpError as failure:
        sys.exit(f"error: {failure}")


if __name__ == "__main__":
    main()
