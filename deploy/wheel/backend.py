"""The build backend: setuptools, with our packages moved below `mlxcel_server/_app/`.

In site-packages a top-level `shared` or `gateway` would collide with those of other projects. A
checkout and an editable install keep them at the top, so that no import differs.
"""

from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path
from typing import Any, Final

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
)

# Without prepare_metadata_for_build_wheel: installers then take the metadata from the wheel.
__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
]

_MOVED: Final = ("deploy", "gateway", "shared", "workers")
_TARGET: Final = "mlxcel_server/_app"


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build the wheel and return its file name. Source: PEP 517."""
    name: str = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    move_packages(Path(wheel_directory) / name)
    return name


def move_packages(path: Path) -> None:
    """Rewrite a wheel with its packages at their new place."""
    fresh = path.with_suffix(".moved")
    with zipfile.ZipFile(path) as wheel, zipfile.ZipFile(fresh, "w") as moved:
        for item in wheel.infolist():
            content = wheel.read(item)
            # An optional list of the packages at the top.
            if item.filename.endswith(".dist-info/top_level.txt"):
                continue
            if item.filename.endswith(".dist-info/RECORD"):
                content = _move_record(content.decode("utf-8")).encode("utf-8")
            item.filename = _move(item.filename)
            moved.writestr(item, content)
    fresh.replace(path)


def _move_record(text: str) -> str:
    """Return the list of files, hashes and sizes with the files' new names."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for name, *rest in csv.reader(text.splitlines()):
        if not name.endswith(".dist-info/top_level.txt"):
            writer.writerow((_move(name), *rest))
    return out.getvalue()


def _move(name: str) -> str:
    return f"{_TARGET}/{name}" if name.partition("/")[0] in _MOVED else name
