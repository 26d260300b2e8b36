"""The replacements of MLX's convolutions on a CPU return what MLX's own do."""

from __future__ import annotations

import mlx.core as mx
import pytest

from workers.audio.speech import convolution


def draw(*shape):
    return mx.random.normal(shape, key=mx.random.key(len(shape)))


@pytest.mark.parametrize(
    ("length", "taps", "options"),
    [
        (50, 11, {"padding": 25, "dilation": 5}),
        (50, 3, {"padding": 3, "dilation": 3}),
        (50, 3, {"padding": 0, "dilation": 2}),
        (600, 7, {"padding": 3}),
        (600, 4, {"padding": 1, "stride": 2}),
        (600, 3, {"padding": 1, "groups": 8}),
        (50, 3, {"padding": 1}),
    ],
)
def test_a_convolution_is_the_same(length, taps, options):
    groups = options.get("groups", 1)
    sound, weight = draw(1, length, 8), draw(16, taps, 8 // groups)
    expected = mx.conv1d(sound, weight, **options)
    given = convolution.conv1d(sound, weight, **options)
    assert given.shape == expected.shape
    assert mx.allclose(given, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("taps", "options"),
    [
        (20, {"stride": 10, "padding": 5}),
        (12, {"stride": 6, "padding": 3}),
        (4, {"stride": 1, "padding": 0}),
        (9, {"stride": 3, "padding": 1}),
        (5, {"stride": 2, "padding": 1}),
        (3, {"stride": 2, "groups": 8}),
        (4, {"stride": 2, "output_padding": 1}),
    ],
)
def test_a_transposed_convolution_is_the_same(taps, options):
    groups = options.get("groups", 1)
    sound, weight = draw(1, 30, 8), draw(16, taps, 8 // groups)
    expected = mx.conv_transpose1d(sound, weight, **options)
    given = convolution.conv_transpose1d(sound, weight, **options)
    assert given.shape == expected.shape
    assert mx.allclose(given, expected, atol=1e-4)


def test_mlxs_own_functions_are_kept_without_install():
    assert mx.conv1d is convolution._conv1d
    assert mx.conv_transpose1d is convolution._conv_transpose1d
