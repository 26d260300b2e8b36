"""What the networks share: masks, activations and attention.

Rows are padded on the right. Padding never changes a real token: masks hide it, and a masked
query still attends to itself, so that no softmax is over nothing (a NaN there would survive
pooling, since 0 · NaN is NaN).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import mlx.core as mx
from mlx import nn

# Queries that are computed together. Without a fused attention kernel, the scores of a text of 8192
# tokens would take gigabytes.
_BLOCK = 1024

Activation = Callable[[mx.array], mx.array]
# erf(x) ≈ x · P(x²) / Q(x²) up to where it is 1 in float32: least squares on Chebyshev nodes,
# reweighted until the largest error no longer falls. The error is below 4e-7 everywhere.
_ERF_END = 3.92
_ERF_P = (
    1.1283790223507588,
    0.19276450939919393,
    0.05306053995200604,
    0.0038683461451095445,
    0.0002874797146214296,
    2.0347304649417826e-06,
)
_ERF_Q = (
    1.0,
    0.5041647649784442,
    0.11508480477228815,
    0.01517233407251857,
    0.00118811947633268,
    3.807061087555957e-05,
)


def gelu(x: mx.array) -> mx.array:
    """Return GELU with an error below 2e-6.

    MLX's CPU backend computes erf one number at a time, which takes longer than all matrix products
    of a layer; a quotient of polynomials is compiled to one vectorised loop.
    """
    return _gelu(x) if x.dtype == mx.float32 else nn.gelu(x)


@partial(mx.compile, shapeless=True)
def _gelu(x: mx.array) -> mx.array:
    near = mx.clip(x * math.sqrt(0.5), -_ERF_END, _ERF_END)
    square = near * near
    erf = near * _polynomial(_ERF_P, square) / _polynomial(_ERF_Q, square)
    return 0.5 * x * (1 + erf)


def _polynomial(coefficients: Sequence[float], x: mx.array) -> mx.array:
    total = mx.array(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total


# By the names of config.json's hidden_act.
ACTIVATIONS: Mapping[str, Activation] = {
    "gelu": gelu,
    "gelu_new": nn.gelu_approx,
    "gelu_pytorch_tanh": nn.gelu_approx,
    "relu": nn.relu,
    "silu": nn.silu,
    "tanh": mx.tanh,
}


def find_activation(name: str) -> Activation:
    """Return an activation by its name in config.json.

    Raises:
        ValueError: it is not supported.
    """
    if name not in ACTIVATIONS:
        raise ValueError(f"activation {name!r} is not one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def real_tokens(lengths: mx.array, width: int) -> mx.array:
    """Return which positions of padded rows hold a token.

    Shape: [rows, width].
    """
    return mx.arange(width)[None] < lengths[:, None]


def padding_mask(lengths: mx.array, width: int) -> mx.array:
    """Return which keys a query attends to if every token attends to every other.

    Shape: [rows, 1, 1, width].
    """
    return real_tokens(lengths, width)[:, None, None]


def window_mask(lengths: mx.array, width: int, reach: int) -> mx.array:
    """Return which keys a query attends to if they are at most `reach` tokens away.

    Shape: [rows, 1, width, width].
    """
    positions = mx.arange(width)
    distance = mx.abs(positions[:, None] - positions[None])
    return (distance <= reach) & (real_tokens(lengths, width)[:, None, None] | (distance == 0))


def attend(queries: mx.array, keys: mx.array, values: mx.array, mask: mx.array | None) -> mx.array:
    """Return scaled dot-product attention with its heads joined.

    Shape: three of [rows, heads, width, size] to [rows, width, heads · size].
    """
    scale = queries.shape[-1] ** -0.5
    mixed = []
    for begin in range(0, queries.shape[2], _BLOCK):
        block = queries[:, :, begin : begin + _BLOCK]
        seen = mask if mask is None or mask.shape[2] == 1 else mask[:, :, begin : begin + _BLOCK]
        mixed.append(
            mx.fast.scaled_dot_product_attention(block, keys, values, scale=scale, mask=seen)
        )
    whole = mixed[0] if len(mixed) == 1 else mx.concatenate(mixed, axis=2)
    return whole.transpose(0, 2, 1, 3).flatten(2)
