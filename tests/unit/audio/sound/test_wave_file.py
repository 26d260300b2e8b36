"""WAVE files are read as ffmpeg reads them, and damaged ones as far as they go."""

from __future__ import annotations

import struct
import subprocess

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.audio.sound import wave_file
from workers.audio.sound.wave_file import read, read_layout, write_header

RATE_HZ = 22_050
TONE = (np.sin(np.arange(RATE_HZ // 4) * 0.2) / 2).astype(np.float32)


def convert(*words, channels=1):
    """Return a tone in another coding, made by ffmpeg."""
    source = ("-f", "f32le", "-ar", str(RATE_HZ), "-ac", str(channels), "-i", "pipe:0")
    command = ["ffmpeg", "-v", "error", *source, *words, "-f", "wav", "pipe:1"]
    data = np.repeat(TONE, channels).tobytes()
    return subprocess.run(command, input=data, capture_output=True, check=True).stdout


def load(data):
    layout = read_layout(data)
    assert layout.is_read_here
    return layout, read(data, layout)


@pytest.mark.parametrize("channels", [1, 2, 6])
@pytest.mark.parametrize(
    ("coding", "steps"),
    [
        ("u8", 2**7),
        ("s16le", 2**15),
        ("s24le", 2**23),
        ("s32le", 2**23),
        ("f32le", 2**23),
        ("f64le", 2**23),
    ],
)
def test_every_uncompressed_coding_is_read(coding, steps, channels):
    layout, samples = load(convert("-c:a", f"pcm_{coding}", channels=channels))
    assert (layout.rate_hz, layout.channels) == (RATE_HZ, channels)
    assert samples.dtype == np.float32
    assert np.allclose(samples, TONE, atol=2 / steps)


@pytest.mark.parametrize("coding", ["pcm_mulaw", "adpcm_ima_wav"])
def test_compressed_codings_are_left_to_ffmpeg(coding):
    assert not read_layout(convert("-c:a", coding)).is_read_here


def test_chunks_before_the_samples_are_skipped():
    data = write_header(8000, 4) + b"\1\0\2\0"
    odd = b"LIST" + struct.pack("<I", 3) + b"abc\0"
    assert len(load(data[:36] + odd + data[36:])[1]) == 2


@pytest.mark.parametrize("size", [None, 0, 100])
def test_a_file_of_unknown_or_wrong_length_has_samples_up_to_its_end(size):
    assert len(load(write_header(8000, size) + bytes(9))[1]) == 4


def test_values_out_of_range_are_clipped_and_nan_counts_as_zero():
    values = np.array([np.nan, np.inf, -np.inf, 3, 1e-40, 0.25], "<f4").tobytes()
    header = bytearray(write_header(8000, len(values)))
    header[20:22], header[34:36] = struct.pack("<H", 3), struct.pack("<H", 32)
    _, samples = load(bytes(header) + values)
    assert np.allclose(samples, [0, 1, -1, 1, 0, 0.25])


@given(
    st.integers(0, 60).flatmap(
        lambda size: st.tuples(st.binary(max_size=60), st.just(size), st.integers(0, 255))
    )
)
def test_any_header_is_read_or_refused(case):
    tail, offset, byte = case
    data = bytearray(write_header(8000, 16) + tail)
    data[offset % len(data)] = byte
    layout = read_layout(bytes(data))
    if layout is not None and layout.is_read_here and layout.channels:
        samples = wave_file.read(bytes(data), layout)
        assert len(samples) == layout.frames
        assert np.isfinite(samples).all()
