"""Resolves the project's packages for Macs: the command behind `make test-pins`.

Every declared Python must get a wheel of every package, in the version that constraints.txt pins.
Needs a package registry; uv resolves for another platform without downloading the packages.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any, Final

from deploy import ROOT

# The oldest macOS that MLX has wheels for.
_MACOS: Final = {"MACOSX_DEPLOYMENT_TARGET": "14.0"}


def list_pythons(project: dict[str, Any]) -> list[str]:
    """Return the versions that the classifiers declare, as "3.11"."""
    found = (re.search(r"Python :: (3\.\d+)$", each) for each in project["classifiers"])
    return [match[1] for match in found if match]


def find_unpinned(resolved: str, pins: str) -> list[str]:
    """Return the resolved packages, as NAME==VERSION, that the pins do not name."""
    known = set(_requirements(pins.splitlines()))
    return [each for each in _requirements(resolved.splitlines()) if each not in known]


def _requirements(lines: Iterable[str]) -> Iterator[str]:
    """Yield normalised requirements, without markers. Source: PEP 503."""
    for line in lines:
        name, separator, version = line.partition(";")[0].strip().partition("==")
        if separator and not line.startswith("#"):
            yield f"{re.sub('[-_.]+', '-', name).lower()}=={version}"


def resolve(python: str, extras: Iterable[str]) -> str:
    """Return the packages that a Python gets on a Mac, one per line."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "pyproject.toml"]
    command += ["--constraint", "constraints.txt", "--only-binary", ":all:", "--no-annotate"]
    command += ["--python-platform", "aarch64-apple-darwin", "--python-version", python]
    command += [word for extra in extras for word in ("--extra", extra)]
    environ = os.environ | _MACOS
    done = subprocess.run(command, cwd=ROOT, env=environ, check=True, stdout=subprocess.PIPE)
    return done.stdout.decode("utf-8")


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pins = (ROOT / "constraints.txt").read_text("utf-8")
    for python in list_pythons(project):
        try:
            resolved = resolve(python, project["optional-dependencies"])
        except subprocess.CalledProcessError:
            sys.exit(f"error: Python {python} on macOS lacks a wheel; uv says which above")
        if unpinned := find_unpinned(resolved, pins):
            sys.exit(f"error: constraints.txt does not pin {', '.join(unpinned)}")
        count = len(list(_requirements(resolved.splitlines())))
        print(f"Python {python} on macOS: {count} packages, all pinned, all with wheels")


if __name__ == "__main__":
    main()
