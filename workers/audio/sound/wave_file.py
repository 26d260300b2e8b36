"""WAVE files: their header, and the samples of uncompressed ones.

Compressed ones are ffmpeg's. Pure.

Source: Microsoft, Multimedia Programming Interface and Data Specifications 1.0, WAVE; for
WAVE_FORMAT_EXTENSIBLE the documentation of WAVEFORMATEXTENSIBLE.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from workers.audio.sound.mixing import mix
from workers.audio.sound.samples import PCM_BYTES, Samples

# A size field of a file that is streamed, whose length is not known.
_UNKNOWN_BYTES: Final = 0xFFFFFFFF
_HEADER_BYTES: Final = 44
# Of the header before the first chunk, of a chunk's header, and of the shortest format chunk.
_RIFF_BYTES, _CHUNK_BYTES, _FORMAT_BYTES = 12, 8, 16
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
# Offset of the coding in an extensible format chunk.
_SUBFORMAT_OFFSET: Final = 24
_READ_BITS: Final = {_PCM: (8, 16, 24, 32), _FLOAT: (32, 64)}


@dataclass(frozen=True)
class WaveLayout:
    """What a header says, and where the samples are.

    Attributes:
        coding: format tag, e.g. 1 for PCM.
        bits: of one sample of one channel.
        begin: offset of the first sample in the file.
        end: offset after the last; within the file.
    """

    coding: int
    channels: int
    rate_hz: int
    bits: int
    begin: int
    end: int

    @property
    def is_read_here(self) -> bool:
        """Whether `read` can read the samples."""
        return self.bits in _READ_BITS.get(self.coding, ())

    @property
    def frames(self) -> int:
        """Number of whole samples per channel."""
        return (self.end - self.begin) // (self.channels * self.bits // 8)


def write_header(rate_hz: int, size_bytes: int | None) -> bytes:
    """Return the header of a file with one channel of 16-bit PCM.

    Args:
        size_bytes: of the samples; None if not known yet.
    """
    whole = _UNKNOWN_BYTES if size_bytes is None else size_bytes + _HEADER_BYTES - 8
    size = _UNKNOWN_BYTES if size_bytes is None else size_bytes
    kind = struct.pack("<HHIIHH", _PCM, 1, rate_hz, rate_hz * PCM_BYTES, PCM_BYTES, 8 * PCM_BYTES)
    riff = struct.pack("<4sI4s4sI", b"RIFF", whole, b"WAVE", b"fmt ", _FORMAT_BYTES)
    return riff + kind + struct.pack("<4sI", b"data", size)


def is_wave(data: bytes) -> bool:
    return data[:4] == b"RIFF" and data[8:12] == b"WAVE"


def read_layout(data: bytes) -> WaveLayout | None:
    """Return the layout of a file; None if it has no format or no samples.

    A file that ends early, or states no size, has samples up to its end.
    """
    offset, form = _RIFF_BYTES, None
    while offset + _CHUNK_BYTES <= len(data):
        name, size = struct.unpack_from("<4sI", data, offset)
        offset += _CHUNK_BYTES
        if name == b"fmt " and offset + _FORMAT_BYTES <= len(data):
            form = _read_format(data, offset, size)
        elif name == b"data" and form is not None:
            is_known = size not in (0, _UNKNOWN_BYTES)
            end = min(offset + size, len(data)) if is_known else len(data)
            return WaveLayout(*form, offset, end)
        offset += size + size % 2
    return None


def _read_format(data: bytes, offset: int, size: int) -> tuple[int, int, int, int]:
    """Return coding, channels, rate and bits."""
    coding, channels, rate_hz, _, _, bits = struct.unpack_from("<HHIIHH", data, offset)
    has_subformat = size > _SUBFORMAT_OFFSET + 1 and offset + size <= len(data)
    if coding == _EXTENSIBLE and has_subformat:
        (coding,) = struct.unpack_from("<H", data, offset + _SUBFORMAT_OFFSET)
    return coding, channels, rate_hz, bits


def read(data: bytes, layout: WaveLayout) -> Samples:
    """Return the samples of a file at its own rate, its channels mixed to one.

    Args:
        layout: one that is read here.
    """
    count = layout.frames * layout.channels
    values = _read_values(data, layout, count)
    clean = np.clip(np.nan_to_num(values, nan=0.0, posinf=1.0, neginf=-1.0), -1, 1)
    return mix(clean.reshape(-1, layout.channels), layout.rate_hz)


def _read_values(data: bytes, layout: WaveLayout, count: int) -> npt.NDArray[np.float32]:
    """Return all values from -1 to 1, or beyond in a float file; channels alternate."""
    if layout.coding == _FLOAT:
        values = np.frombuffer(data, f"<f{layout.bits // 8}", count, layout.begin)
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(np.float32)
    if layout.bits == 8:
        unsigned = np.frombuffer(data, np.uint8, count, layout.begin)
        return (unsigned.astype(np.float32) - 128) / np.float32(128)
    if layout.bits == 24:
        raw = np.frombuffer(data, np.uint8, 3 * count, layout.begin).reshape(-1, 3)
        padded = np.zeros((count, 4), np.uint8)
        padded[:, 1:] = raw
        return padded.view("<i4")[:, 0].astype(np.float32) / np.float32(2**31)
    signed = np.frombuffer(data, f"<i{layout.bits // 8}", count, layout.begin)
    return signed.astype(np.float32) / np.float32(2 ** (layout.bits - 1))
