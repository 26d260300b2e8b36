"""What the checkpoints of all audio models have in common: a config, weights, quantised layers.

Runs on the lane's thread.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn

from shared.lifecycle import PermanentError

# What mlx and the libraries around it raise on a file that is broken.
_BROKEN = (TypeError, ValueError, KeyError, AttributeError, RuntimeError, OSError)


@contextmanager
def whole(path: Path, kind: str) -> Iterator[None]:
    """Read a model in this block; what it lacks is told in words, and not tried again.

    Args:
        kind: what it should be, e.g. "Whisper".

    Raises:
        PermanentError: it is not whole.
    """
    try:
        yield
    except _BROKEN as failure:
        raise PermanentError(f"{path} is not a whole {kind} model: {failure}") from failure


def read_config(path: Path) -> dict[str, Any]:
    """Return the config.json of a folder."""
    config: dict[str, Any] = json.loads((path / "config.json").read_text(encoding="utf-8"))
    return config


def read_weights(files: Iterable[Path]) -> dict[str, mx.array]:
    """Return the arrays of some files, by name."""
    weights: dict[str, mx.array] = {}
    for file in files:
        weights.update(mx.load(str(file)))
    return weights


def quantize(model: Any, config: Mapping[str, Any], weights: Mapping[str, mx.array]) -> None:
    """Give a model the layers that quantised weights need."""
    if (how := config.get("quantization")) is not None:
        kinds = (nn.Linear, nn.Embedding)
        wanted = lambda name, layer: isinstance(layer, kinds) and f"{name}.scales" in weights  # noqa: E731
        nn.quantize(model, how["group_size"], how["bits"], class_predicate=wanted)


def require(path: Path) -> Path:
    """Return the path of a file that must be there.

    Raises:
        PermanentError: it is not.
    """
    if not path.is_file():
        raise PermanentError(f"{path} is missing; the model is not whole")
    return path
