"""Recordings in any container become samples, by ffmpeg in a process of its own.

Owns every bound on what an upload may cost: time, memory, duration, the containers that are read
at all, and that nothing but the upload itself is opened. Whatever is wrong with one is
`invalid_request`. Runs on the event loop; the work is the other process's.
"""

from __future__ import annotations

import asyncio
import re
import struct
import tempfile
from typing import Any

import ffmpeg
import numpy as np
import numpy.typing as npt

from shared.errors import ServiceError
from workers.audio.sound import program

Samples = npt.NDArray[np.float32]

RATE_HZ = 16_000
_SAMPLE_BYTES = 2
_DEADLINE_S = 60.0
# Whole files with a header of their own. Playlists, which name other files, are not among them.
_CONTAINERS = (
    "aac,ac3,aiff,amr,asf,au,avi,caf,eac3,flac,flv,matroska,mov,mp3,mpeg,mpegts,ogg,tta,w64,wav,wv"
)
# One packet, one frame of pictures: a header may claim any size.
_MOST_ALLOCATED_BYTES = 64 * 1024 * 1024
# OpenAI refuses shorter ones, too.
_SHORTEST_S = 0.1
# A recording that ends this long before its header says is broken off.
_TOLERATED_S = 0.5
_TOLERATED_PART = 0.1
_MOST_CHANNELS = 8
_HIGHEST_RATE_HZ = 192_000
_WAVE_HEADER_BYTES = 12
_CLAIM = re.compile(rb"Duration: (\d+):(\d\d):(\d\d\.\d+)")
# Where there is no header, ffmpeg guesses: far too long when a file begins with silence.
_GUESSED = b"Estimating duration"
# Pictures may go on when the sound has ended; those that come with a song do not go on at all.
_PICTURES = re.compile(rb": Video: (?!.*\(attached pic\))")
_CUT = re.compile(rb"partial file|ended prematurely")
# The end of what a failed ffmpeg says; a log of it is no use to anybody.
_KEPT_LOG_BYTES = 64 * 1024


def require_program() -> None:
    """Make sure that there is an ffmpeg to run.

    Raises:
        PermanentError: there is none.
    """
    program.require("ffmpeg", "nothing can be transcribed or spoken")


async def decode(data: bytes, longest_s: int) -> Samples:
    """Return the samples of a recording, mono at 16 kHz.

    Raises:
        ServiceError: it is none, is too long or too short, or breaks off.
    """
    if not data:
        raise _refuse("is empty")
    is_wave = data[:4] == b"RIFF"
    if is_wave:
        _check_wave(data)
    # Without a name from its birth, so that nothing is left of it whoever is killed.
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        file.seek(0)
        raw, log = await _run(_command(longest_s), file)
    samples = np.frombuffer(raw, "<i2").astype(np.float32) / 32768
    duration_s = len(samples) / RATE_HZ
    if duration_s > longest_s:
        raise _refuse(f"is longer than {longest_s} seconds")
    if not len(samples):
        raise _refuse(_reason(log))
    # A player takes what there is of a wave file, as do the clients that stream one.
    if not is_wave:
        _check_whole(log, duration_s)
    if duration_s < _SHORTEST_S:
        raise _refuse(f"is too short: {duration_s:.2f} s, and {_SHORTEST_S} s is the least")
    return samples


def _command(longest_s: int) -> list[str]:
    """Return the command that reads its standard input, as a file that it may seek in."""
    source = ffmpeg.input(
        "file:/dev/stdin",
        protocol_whitelist="file",
        format_whitelist=_CONTAINERS,
        max_alloc=_MOST_ALLOCATED_BYTES,
        threads=1,
        vn=None,
        sn=None,
        dn=None,
    )
    sink = source["a:0"].output(
        "pipe:1", format="s16le", acodec="pcm_s16le", ac=1, ar=RATE_HZ, t=longest_s + 1, threads=1
    )
    command: list[str] = sink.global_args("-hide_banner", "-nostdin", "-nostats").compile()
    return command


async def _run(command: list[str], stdin: Any) -> tuple[bytes, bytes]:
    """Return what a command writes, and its log."""
    streams = {"stdin": stdin, "stdout": program.PIPE, "stderr": program.PIPE}
    async with program.run(command, **streams) as process:
        try:
            async with asyncio.timeout(_DEADLINE_S):
                raw, log = _read(process.stdout), _read(process.stderr, keep_end=True)
                answer = await asyncio.gather(raw, log)
                await process.wait()
                return answer
        except TimeoutError:
            raise _refuse(f"takes longer than {_DEADLINE_S:.0f} s to decode") from None


async def _read(stream: asyncio.StreamReader | None, *, keep_end: bool = False) -> bytes:
    """Return all of a stream; of a log its first and last part are enough."""
    assert stream is not None
    data = bytearray()
    while chunk := await stream.read(256 * 1024):
        data += chunk
        if keep_end and len(data) > 2 * _KEPT_LOG_BYTES:
            del data[_KEPT_LOG_BYTES:-_KEPT_LOG_BYTES]
    return bytes(data)


def _check_wave(data: bytes) -> None:
    """Refuse a wave file whose header asks for more than anybody records.

    Source: Microsoft, Multimedia Programming Interface and Data Specifications 1.0, WAVE.
    """
    place = _WAVE_HEADER_BYTES
    while place + 8 <= len(data):
        name, size = struct.unpack_from("<4sI", data, place)
        if name == b"fmt " and place + 16 <= len(data):
            channels, rate_hz = struct.unpack_from("<HI", data, place + 10)
            if not 1 <= channels <= _MOST_CHANNELS:
                raise _refuse(f"has {channels} channels, and {_MOST_CHANNELS} is the most")
            if not 1 <= rate_hz <= _HIGHEST_RATE_HZ:
                raise _refuse(f"has a rate of {rate_hz} Hz, and {_HIGHEST_RATE_HZ} is the highest")
            return
        place += 8 + size + size % 2


def _check_whole(log: bytes, duration_s: float) -> None:
    """Refuse a recording of which a good part is missing."""
    if (claim := _CLAIM.search(log)) is None or _GUESSED in log:
        return
    if _PICTURES.search(log) and not _CUT.search(log):
        return
    hours, minutes, seconds = map(float, claim.groups())
    claimed_s = hours * 3600 + minutes * 60 + seconds
    if claimed_s - duration_s > max(_TOLERATED_S, claimed_s * _TOLERATED_PART):
        raise _refuse(f"breaks off after {duration_s:.1f} of {claimed_s:.1f} seconds")


def _reason(log: bytes) -> str:
    """Return why ffmpeg gave no samples, in words for whoever sent the file."""
    if b"matches no streams" in log:
        return "has no sound in it"
    return "can't be decoded: it is damaged, or not a recording"


def _refuse(sentence: str) -> ServiceError:
    return ServiceError("invalid_request", f"The audio file {sentence}.", "file")
