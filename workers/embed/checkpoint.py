"""What a checkpoint's folder states besides weights: pooling, dense layers, norms, lengths.

Reads config.json and the files of sentence-transformers. Loads no weights and no tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.lifecycle import PermanentError

# Longest text of any model.
LENGTH_CAP_TOKENS = 8192
# tokenizer_config.json states 1e30 for "no limit".
_SANE_LENGTH_TOKENS = 1_000_000
NO_NORM, EUCLIDEAN = -1, 2

# Booleans of older 1_Pooling/config.json files.
_FLAGS: Mapping[str, str] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "last",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len",
    "pooling_mode_weightedmean_tokens": "weightedmean",
}
_MODES = {"cls": "cls", "mean": "mean", "max": "max", "lasttoken": "last", "last": "last"}


@dataclass(frozen=True)
class Checkpoint:
    """A model's folder.

    Attributes:
        modules: sentence-transformers' list, as pairs of type and folder; None without one.
    """

    path: Path
    config: dict[str, Any]
    modules: tuple[tuple[str, str], ...] | None

    @property
    def model_type(self) -> str:
        """The family, as config.json names it."""
        return str(self.config.get("model_type", ""))

    @property
    def is_classifier(self) -> bool:
        """Whether it has a scoring head."""
        names = self.config.get("architectures") or ()
        return any(str(name).endswith("ForSequenceClassification") for name in names)

    def folders(self, kind: str) -> list[Path]:
        """Return the folders of the modules of a kind, e.g. "Dense"."""
        return [self.path / folder for name, folder in self.modules or () if name == kind]

    def read(self, name: str) -> dict[str, Any]:
        """Return a JSON object of the folder; empty without the file."""
        return read_object(self.path / name)


def read_object(path: Path) -> dict[str, Any]:
    """Return a JSON object; empty without the file.

    Raises:
        PermanentError: it is broken.
    """
    found = _read(path, {})
    if not isinstance(found, dict):
        raise PermanentError(f"{path} is not a JSON object")
    return found


def _read(path: Path, absent: Any) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return absent
    except (OSError, ValueError) as failure:
        raise PermanentError(f"{path} can't be read: {failure}") from None


def read_checkpoint(path: Path) -> Checkpoint:
    """Return the configuration in a folder.

    Raises:
        PermanentError: one of its files is broken.
    """
    listed = _read(path / "modules.json", None)
    modules = None
    if isinstance(listed, list):
        modules = tuple(
            (str(item.get("type", "")).rpartition(".")[2], str(item.get("path", "")))
            for item in listed
        )
    return Checkpoint(path, read_object(path / "config.json"), modules)


def read_pooling(checkpoint: Checkpoint) -> str | None:
    """Return a checkpoint's pooling; None if it states none.

    Raises:
        PermanentError: its pooling is not supported.
    """
    folders = checkpoint.folders("Pooling") or [checkpoint.path / "1_Pooling"]
    table = read_object(folders[0] / "config.json")
    if not table:
        return None
    if table.get("include_prompt") is False:
        raise PermanentError(f"{folders[0]}: include_prompt = false is not supported")
    mode = table.get("pooling_mode") or _legacy_mode(table, folders[0])
    if mode not in _MODES:
        raise PermanentError(f"{folders[0]}: pooling {mode!r} is not supported")
    return _MODES[mode]


def _legacy_mode(table: Mapping[str, Any], folder: Path) -> str:
    chosen = [mode for flag, mode in _FLAGS.items() if table.get(flag)]
    if len(chosen) > 1:
        raise PermanentError(
            f"{folder}: several kinds of pooling are not supported: {', '.join(chosen)}"
        )
    return chosen[0] if chosen else "mean"


def read_norm(checkpoint: Checkpoint) -> int:
    """Return a checkpoint's norm of vectors; Euclidean if it states none."""
    if checkpoint.modules is None or checkpoint.folders("Normalize"):
        return EUCLIDEAN
    return NO_NORM


def longest_text(checkpoint: Checkpoint, positions: int | None, wanted: int) -> int:
    """Return the tokens of the longest text.

    Args:
        positions: size of the model's table of positions; None without one.
        wanted: the setting; 0 for no limit.
    """
    lengths = [
        LENGTH_CAP_TOKENS,
        checkpoint.read("sentence_bert_config.json").get("max_seq_length"),
        checkpoint.read("tokenizer_config.json").get("model_max_length"),
        positions,
        wanted or None,
    ]
    return int(min(n for n in lengths if n is not None and 0 < n < _SANE_LENGTH_TOKENS))
