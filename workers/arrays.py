"""Arrays by name, typed: of weight files, and of a network's parameters.

mlx's own functions return unions. Runs on the thread that owns the model.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import cast

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten

Arrays = dict[str, mx.array]


def read_arrays(files: Iterable[Path]) -> Arrays:
    """Return the arrays of some .safetensors or .npz files.

    Raises:
        RuntimeError: a file is broken.
    """
    arrays: Arrays = {}
    for file in files:
        arrays.update(cast("Arrays", mx.load(str(file))))
    return arrays


def read_parameters(network: nn.Module) -> Arrays:
    return dict(cast("list[tuple[str, mx.array]]", tree_flatten(network.parameters())))
