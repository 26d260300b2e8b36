"""What a model setting means: a folder on this machine, or a name on the Hugging Face hub.

Pure but for looking at the disk. Downloads and loads nothing.
"""

from __future__ import annotations

from pathlib import Path

from shared.lifecycle import PermanentError


def find(model: str, folder: Path) -> Path | None:
    """Return the folder of a model, or None for an owner/name to be had from the hub.

    Args:
        folder: where a relative path starts.

    Raises:
        PermanentError: there is no such folder, or it holds no model.
    """
    if not model:
        raise PermanentError("no model given; use -m FOLDER or set `model` in the fleet file")
    path = (folder / Path(model).expanduser()).resolve()
    if not path.is_dir():
        if model.count("/") != 1 or model.startswith((".", "/", "~")):
            raise PermanentError(f"model folder {path} does not exist; check -m or `model`")
        return None
    return check(path)


def check(path: Path) -> Path:
    """Return a folder that holds a model.

    Raises:
        PermanentError: it holds none.
    """
    if not (path / "config.json").is_file():
        raise PermanentError(f"{path} has no config.json; it is not an mlx-lm model folder")
    return path
