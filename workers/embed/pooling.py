"""From the hidden states of a text's tokens to one vector, and from that to what is asked for.

Pooling and dense layers run on the device, in float32; norms are taken on the finished rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from shared.lifecycle import PermanentError
from workers.embed.checkpoint import NO_NORM, Checkpoint, read_object
from workers.embed.network.attention import real_tokens

Vectors = NDArray[np.float32]
# Hidden states [rows, width, size] and lengths [rows] to [rows, size].
Pool = Callable[[mx.array, mx.array], mx.array]

# llama.cpp's: vectors of norm 0 are meant to be stored as int16.
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


POOLS: dict[str, Pool] = {
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
        PermanentError: one can't be used.
    """
    return [_read_dense(folder) for folder in checkpoint.folders("Dense")]


def _read_dense(folder: Path) -> Dense:
    """Return a dense layer of sentence-transformers."""
    config = read_object(folder / "config.json")
    name = str(config.get("activation_function", "Identity")).rpartition(".")[2]
    if name not in _DENSE_ACTIVATIONS:
        raise PermanentError(f"{folder}: activation {name!r} is not known")
    try:
        weights = mx.load(str(folder / "model.safetensors"))
    except RuntimeError as failure:
        raise PermanentError(f"{folder} can't be loaded: {failure}") from None
    return Dense(weights["linear.weight"], weights.get("linear.bias"), name)


def finish(vectors: Vectors, norm: int, dimensions: int | None) -> Vectors:
    """Return vectors with the norm and the number of components asked for.

    Args:
        norm: as in EmbedRequest.normalize.
        dimensions: kept of each, which is normalised again; None for all.

    Shape: [rows, size] to [rows, dimensions].
    """
    done = normalize(vectors, norm)
    if dimensions is None or dimensions >= done.shape[1]:
        return done
    return normalize(done[:, :dimensions], norm)


def normalize(vectors: Vectors, norm: int) -> Vectors:
    """Return vectors of unit size; a vector of zeros stays one.

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
        # Of the largest component as unit, so that no power overflows.
        top = np.maximum(size.max(axis=1, keepdims=True), _TINY)
        length = top * ((size / top) ** norm).sum(axis=1, keepdims=True) ** (1.0 / norm)
    return (vectors / np.maximum(length, _TINY)).astype(np.float32)
