"""What the checkpoints of all audio models share: config, errors, quantised layers.

Runs on the model thread.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn

from shared.lifecycle import PermanentError

# Exceptions of mlx, mlx-audio and tokenizers for a broken file.
_BROKEN = (TypeError, ValueError, KeyError, AttributeError, RuntimeError, OSError)


@contextmanager
def refuse_broken(path: Path, kind: str) -> Iterator[None]:
    """Turn an exception while a model is read in this block into a permanent error.

    Args:
        kind: what the model should be, e.g. "Whisper".

    Raises:
        PermanentError: the model is broken or incomplete.
    """
    try:
        yield
    except _BROKEN as failure:
        raise PermanentError(f"{path} is not a complete {kind} model: {failure}") from failure


def read_config(path: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((path / "config.json").read_text(encoding="utf-8"))
    return config


def quantize(
    network: nn.Module, config: Mapping[str, Any], weights: Mapping[str, mx.array]
) -> None:
    """Replace the layers whose weights are quantised."""

    def is_quantized(name: str, layer: nn.Module) -> bool:
        return isinstance(layer, nn.Linear | nn.Embedding) and f"{name}.scales" in weights

    if (options := config.get("quantization")) is not None:
        nn.quantize(network, options["group_size"], options["bits"], class_predicate=is_quantized)


def require(path: Path) -> Path:
    """Return the path of a file that must exist.

    Raises:
        PermanentError: it does not.
    """
    if not path.is_file():
        raise PermanentError(f"{path} is missing; the model is incomplete")
    return path
