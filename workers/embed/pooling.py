"""From the hidden states of a row's tokens to one vector, its norm and its size.

Pooling and dense layers run on the device, in float32; norms are computed by numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from shared.lifecycle import PermanentError
from workers.arrays import read_arrays
from workers.embed.checkpoint import NO_NORM, Checkpoint, read_object
from workers.embed.network.attention import real_tokens
from workers.embed.network.module import PerRow

Vectors = NDArray[np.float32]

# Source: llama.cpp, where vectors of norm 0 are to be stored as int16.
_INT16_TOP = 32760.0
_TINY = 1e-9
_DENSE_ACTIVATIONS: dict[str, Callable[[mx.array], mx.array]] = {
    "Identity": lambda x: x,
    "Tanh": mx.tanh,
}


def _mean(hidden: mx.array, lengths: mx.array) -> mx.array:
    real = real_tokens(lengths, hidden.shape[1])[..., None]
    return mx.where(real, hidden, 0).sum(axis=1) / mx.maximum(lengths[:, None], _TINY)


def _max(hidden: mx.array, lengths: mx.array) -> mx.array:
    real = real_tokens(lengths, hidden.shape[1])[..., None]
    return mx.where(real, hidden, -mx.inf).max(axis=1)


def last_token(hidden: mx.array, lengths: mx.array) -> mx.array:
    """Return the state of each row's last token."""
    return hidden[mx.arange(hidden.shape[0]), lengths - 1]


POOLS: dict[str, PerRow] = {
    "cls": lambda hidden, _: hidden[:, 0],
    "mean": _mean,
    "max": _max,
    "last": last_token,
}


class Dense:
    """A dense layer after the pooling, in float32."""

    def __init__(
        self, weight: mx.array, bias: mx.array | None = None, activation: str = "Identity"
    ) -> None:
        self._activate = _DENSE_ACTIVATIONS[activation]
        self.weight = weight.astype(mx.float32)
        self.bias = mx.array(0.0) if bias is None else bias.astype(mx.float32)
        mx.eval(self.weight, self.bias)

    def __call__(self, x: mx.array) -> mx.array:
        return self._activate(x @ self.weight.T + self.bias)


class Pooler:
    """Pooling, then the dense layers.

    Args:
        mode: a key of `POOLS`.
    """

    def __init__(self, mode: str, layers: Sequence[Dense]) -> None:
        self._pool = POOLS[mode]
        self._layers = layers

    def __call__(self, hidden: mx.array, lengths: mx.array) -> mx.array:
        """Return a vector per row.

        Shape: [rows, width, size] to [rows, dimensions], float32.
        """
        x = self._pool(hidden.astype(mx.float32), lengths)
        for layer in self._layers:
            x = layer(x)
        return x


def read_dense(checkpoint: Checkpoint) -> list[Dense]:
    """Return the dense layers of a checkpoint.

    Raises:
        PermanentError: one is broken or not supported.
    """
    return [_read_dense(folder) for folder in checkpoint.folders("Dense")]


def _read_dense(folder: Path) -> Dense:
    config = read_object(folder / "config.json")
    name = str(config.get("activation_function", "Identity")).rpartition(".")[2]
    if name not in _DENSE_ACTIVATIONS:
        raise PermanentError(f"{folder}: activation {name!r} is not supported")
    try:
        weights = read_arrays([folder / "model.safetensors"])
    except RuntimeError as failure:
        raise PermanentError(f"{folder} can't be loaded: {failure}") from None
    return Dense(weights["linear.weight"], weights.get("linear.bias"), name)


def finish(vectors: Vectors, norm: int, dimensions: int | None) -> Vectors:
    """Return vectors with the requested norm and number of components.

    Args:
        norm: as in EmbedRequest.normalize.
        dimensions: leading components to keep, normalised again; None for all.

    Shape: [rows, size] to [rows, dimensions].
    """
    normalized = normalize(vectors, norm)
    if dimensions is None or dimensions >= normalized.shape[1]:
        return normalized
    return normalize(normalized[:, :dimensions], norm)


def normalize(vectors: Vectors, norm: int) -> Vectors:
    """Return vectors divided by their norm; zeros stay zeros.

    Source: llama.cpp's common_embd_normalize.
    """
    if norm == NO_NORM:
        return vectors
    size = np.abs(vectors)
    if norm == 0:
        length = size.max(axis=1, keepdims=True) / _INT16_TOP
    elif norm == 1:
        length = size.sum(axis=1, keepdims=True)
    else:
        # Relative to the largest component, so that no power overflows.
        top = np.maximum(size.max(axis=1, keepdims=True), _TINY)
        length = top * ((size / top) ** norm).sum(axis=1, keepdims=True) ** (1.0 / norm)
    normalized: Vectors = (vectors / np.maximum(length, _TINY)).astype(np.float32)
    return normalized
