"""Faster versions of two of MLX's convolutions, for its CPU backend only.

There, dilated and transposed convolutions are many times slower than the matrix products they
amount to, and long plain ones copy every sample once per tap (mlx 0.32.4). Not used on Metal.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx

_conv1d, _conv_transpose1d = mx.conv1d, mx.conv_transpose1d
# Number of samples from which a sum of products is faster.
_LONG = 512


def install() -> None:
    """Replace MLX's own functions in this process."""
    mx.conv1d = conv1d
    mx.conv_transpose1d = conv_transpose1d


def conv1d(
    sound: mx.array,
    weight: mx.array,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    **options: Any,
) -> mx.array:
    """Return a convolution, as a sum of one matrix product per tap.

    Shape: [batch, time, in] by [out, taps, in] gives [batch, time, out].
    """
    is_slow = dilation > 1 or sound.shape[1] >= _LONG
    if not is_slow or stride != 1 or groups != 1 or len(sound) != 1:
        return _conv1d(sound, weight, stride, padding, dilation, groups, **options)
    padded = mx.pad(sound[0], [(padding, padding), (0, 0)])
    length = len(padded) - dilation * (weight.shape[1] - 1)
    total = padded[:length] @ weight[:, 0].T
    for tap in range(1, weight.shape[1]):
        begin = tap * dilation
        total = mx.addmm(total, padded[begin : begin + length], weight[:, tap].T)
    return total[None]


def conv_transpose1d(  # noqa: PLR0913, PLR0917 - MLX's own
    sound: mx.array,
    weight: mx.array,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    output_padding: int = 0,
    groups: int = 1,
    **options: Any,
) -> mx.array:
    """Return a transposed convolution, as one matrix product and a sum of shifted parts.

    Shape: [batch, time, in] by [out, taps, in] gives [batch, about time * stride, out].
    """
    width, taps, _ = weight.shape
    is_plain = (dilation, groups, output_padding, len(sound)) == (1, 1, 0, 1)
    if not is_plain or taps % stride:
        return _conv_transpose1d(
            sound, weight, stride, padding, dilation, output_padding, groups, **options
        )
    # Each input sample contributes to several blocks of `stride` output samples.
    blocks = taps // stride
    products = (sound[0] @ weight.transpose(2, 1, 0).reshape(-1, taps * width)).reshape(
        len(sound[0]), blocks, stride * width
    )
    shifted = [
        mx.pad(products[:, index], [(index, blocks - 1 - index), (0, 0)]) for index in range(blocks)
    ]
    output = sum(shifted[1:], start=shifted[0]).reshape(1, -1, width)
    return output[:, padding : output.shape[1] - padding]
