"""What a model setting means: a folder on this machine, or a name on the Hugging Face hub.

Pure but for looking at the disk. Downloads and loads nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from shared.lifecycle import PermanentError

# Families that read and don't write.
_ENCODERS = ("bert", "roberta", "xlm-roberta", "modernbert")


def kind(path: Path) -> str:
    """Return the kind of worker that a model is for, as far as its folder tells: text, if nothing.

    Qwen3-Reranker looks like a model for text.
    """
    try:
        config = _read(path)
        names = [str(name) for name in config.get("architectures") or ()]
        family = config.get("model_type")
    except (OSError, ValueError, AttributeError, TypeError):
        return "text"
    if family == "whisper" or speaks(path):
        return "audio"
    if any(name.endswith("ForSequenceClassification") for name in names):
        return "rerank"
    # A decoder that looks both ways writes nothing: EmbeddingGemma.
    reads = family in _ENCODERS or bool(config.get("use_bidirectional_attention"))
    return "embed" if reads or _pools(path) else "text"


def _pools(path: Path) -> bool:
    """Return whether sentence-transformers' files of a folder speak of pooling."""
    if (path / "1_Pooling" / "config.json").is_file():
        return True
    try:
        return ".Pooling" in (path / "modules.json").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False


def speaks(path: Path) -> bool:
    """Return whether a folder holds a Kokoro, whose own config.json does not name its family."""
    try:
        return {"istftnet", "plbert"} <= set(_read(path))
    except (OSError, ValueError, TypeError):
        return False


def _read(path: Path) -> Any:
    return json.loads((path / "config.json").read_text(encoding="utf-8"))


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
    if path.is_file():
        raise PermanentError(
            f"{path} is a file, and a model is a folder with a config.json; GGUF files are not "
            "served, convert the original model with mlx_lm.convert"
        )
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
        raise PermanentError(f"{path} has no config.json; it is no model folder")
    return path
