"""WAVE files are read as ffmpeg reads them, and damaged ones as far as they go."""

from __future__ import annotations

import itertools
import struct
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.audio.sound import wave_file
from workers.audio.sound.wave_file import read, read_layout, write_header

RATE_HZ = 22_050
TONE = (np.sin(np.arange(RATE_HZ // 4) * 0.2) / 2).astype(np.float32)


# Coding → its steps, of the 24 bits that are compared.
STEPS = {
    "u8": 2**7,
    "s16le": 2**15,
    "s24le": 2**23,
    "s32le": 2**23,
    "f32le": 2**23,
    "f64le": 2**23,
}


def convert(*words):
    """Return a tone in another coding, made by ffmpeg and of unknown length."""
    source = ("-f", "f32le", "-ar", str(RATE_HZ), "-ac", "1", "-i", "pipe:0")
    command = ["ffmpeg", "-v", "error", *source, *words, "-f", "wav", "pipe:1"]
    return subprocess.run(command, input=TONE.tobytes(), capture_output=True, check=True).stdout


@cache
def convert_to_each(channels):
    """Return a tone in each of `STEPS` codings, made by one ffmpeg."""
    source = ("-f", "f32le", "-ar", str(RATE_HZ), "-ac", str(channels), "-i", "pipe:0")
    with tempfile.TemporaryDirectory() as folder:
        paths = {coding: Path(folder, coding) for coding in STEPS}
        outputs = [["-c:a", f"pcm_{c}", "-f", "wav", str(path)] for c, path in paths.items()]
        command = ["ffmpeg", "-v", "error", *source, *itertools.chain(*outputs)]
        subprocess.run(command, input=np.repeat(TONE, channels).tobytes(), check=True)
        return {coding: path.read_bytes() for coding, path in paths.items()}


def load(data):
    layout = read_layout(data)
    assert layout.is_read_here
    return layout, read(data, layout)


@pytest.mark.parametrize("channels", [1, 2, 6])
@pytest.mark.parametrize(("coding", "steps"), STEPS.items())
def test_every_uncompressed_coding_is_read(coding, steps, channels):
    layout, samples = load(convert_to_each(channels)[coding])
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


def test_a_file_that_was_written_to_a_pipe_is_read():
    layout, samples = load(convert("-c:a", "pcm_s16le"))
    assert layout.rate_hz == RATE_HZ
    assert np.allclose(samples, TONE, atol=2 / STEPS["s16le"])


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
