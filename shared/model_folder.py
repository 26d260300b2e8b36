"""What a model setting means: a folder on this machine, or a name on the Hugging Face hub.

Finds model folders and reads from their files what a model is for. Downloads and loads nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from shared.lifecycle import PermanentError

# Families that encode text and do not generate it.
_ENCODERS = ("bert", "roberta", "xlm-roberta", "modernbert")


def transcribes(path: Path) -> bool:
    """Return whether a folder holds a Whisper model."""
    return bool(_read_config(path).get("model_type") == "whisper")


def speaks(path: Path) -> bool:
    """Return whether a folder holds a Kokoro model, whose config.json does not name its family."""
    return {"istftnet", "plbert"} <= _read_config(path).keys()


def classifies(path: Path) -> bool:
    """Return whether a folder holds a classifier, which is served as a reranker."""
    names = _read_config(path).get("architectures")
    return isinstance(names, list) and any(
        str(name).endswith("ForSequenceClassification") for name in names
    )


def embeds(path: Path) -> bool:
    """Return whether a folder holds an embedding model."""
    config = _read_config(path)
    if classifies(path):
        return False
    # A decoder with bidirectional attention does not generate: EmbeddingGemma.
    is_encoder = config.get("model_type") in _ENCODERS
    return is_encoder or bool(config.get("use_bidirectional_attention")) or _pools(path)


def _pools(path: Path) -> bool:
    """Return whether sentence-transformers' files of a folder name a pooling layer."""
    if (path / "1_Pooling" / "config.json").is_file():
        return True
    try:
        return ".Pooling" in (path / "modules.json").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False


def _read_config(path: Path) -> dict[str, Any]:
    """Return a model's config.json; empty when it can't be read or is no object."""
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}


def find(model: str, folder: Path) -> Path | None:
    """Return the folder of a model, or None for an owner/name on the hub.

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
        raise PermanentError(f"{path} has no config.json; it is not a model folder")
    return path
