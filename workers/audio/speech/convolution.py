"""Two of MLX's convolutions again, for its CPU backend only.

Dilated and transposed convolutions take a path there that is many times as slow as the matrix
products they stand for, and long plain ones copy every sample once per tap (mlx 0.32.4). Nothing
here is used on Metal.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx

_conv1d, _conv_transpose1d = mx.conv1d, mx.conv_transpose1d
# A sum of products pays off from about here.
_LONG = 512


def install() -> None:
    """Use these in place of MLX's own, in this process."""
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
    """Return a convolution: the sum over its taps of a product each.

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
    """Return a transposed convolution: what each sample becomes, laid over one another.

    Shape: [batch, time, in] by [out, taps, in] gives [batch, about time * stride, out].
    """
    width, taps, _ = weight.shape
    is_plain = (dilation, groups, output_padding, len(sound)) == (1, 1, 0, 1)
    if not is_plain or taps % stride:
        return _conv_transpose1d(
            sound, weight, stride, padding, dilation, output_padding, groups, **options
        )
    # Each sample becomes several stretches of `stride` samples.
    stretches = taps // stride
    laid = (sound[0] @ weight.transpose(2, 1, 0).reshape(-1, taps * width)).reshape(
        len(sound[0]), stretches, stride * width
    )
    total = sum(
        mx.pad(laid[:, place], [(place, stretches - 1 - place), (0, 0)])
        for place in range(stretches)
    )
    spread = total.reshape(1, -1, width)
    return spread[:, padding : spread.shape[1] - padding]
