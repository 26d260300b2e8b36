"""Decodes recordings to samples: WAVE files here, others by ffmpeg in a process of its own.

Owns every bound on the cost of an upload (time, memory, duration, allowed containers), and that
nothing but the upload is opened. A bad recording is `invalid_request`. Runs on the event loop.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from typing import Any, Final

import ffmpeg

from shared.errors import ServiceError
from workers.audio.sound import program, wave_file
from workers.audio.sound.resampling import resample
from workers.audio.sound.samples import RATE_HZ, Samples, from_pcm
from workers.audio.sound.wave_file import WaveLayout

# What is lost without ffmpeg.
NEEDS_PROGRAM: Final = "only WAV files can be transcribed"

_DEADLINE_S = 60.0
# Single files only: playlists name other files.
_CONTAINERS = (
    "aac,ac3,aiff,amr,asf,au,avi,caf,eac3,flac,flv,matroska,mov,mp3,mpeg,mpegts,ogg,tta,w64,wav,wv"
)
# Of one packet or video frame: a header may claim any size.
_MOST_ALLOCATED_BYTES = 64 * 1024 * 1024
# Source: OpenAI's API has the same minimum.
_SHORTEST_S = 0.1
# A recording may be shorter than its header claims by the greater of these.
_TOLERATED_S = 0.5
_TOLERATED_PART = 0.1
_MOST_CHANNELS = 8
_HIGHEST_RATE_HZ = 192_000
_CLAIM = re.compile(rb"Duration: (\d+):(\d\d):(\d\d\.\d+)")
# Without a header ffmpeg estimates, far too long when a file begins with silence.
_ESTIMATED = b"Estimating duration"
# A video may be longer than its sound; a cover picture has no duration.
_VIDEO = re.compile(rb": Video: (?!.*\(attached pic\))")
_CUT = re.compile(rb"partial file|ended prematurely")
_DAMAGED = "can't be decoded: it is damaged or not a recording"
# Of the beginning and of the end of ffmpeg's log.
_KEPT_LOG_BYTES = 64 * 1024


async def decode(data: bytes, max_duration_s: int) -> Samples:
    """Return the samples of a recording, at `RATE_HZ`.

    Raises:
        ServiceError: it can't be decoded, is too long or too short, or is truncated; or
            `not_implemented`, it needs ffmpeg, which is not installed.
    """
    if not data:
        raise _refuse("is empty")
    layout = _check_wave(data) if wave_file.is_wave(data) else None
    if layout is not None and layout.is_read_here:
        # In a thread: a long recording takes a second.
        samples = await asyncio.to_thread(_read_wave, data, layout, max_duration_s)
    else:
        samples = await _decode_by_program(data, max_duration_s)
    duration_s = len(samples) / RATE_HZ
    if duration_s < _SHORTEST_S:
        raise _refuse(f"is too short: {duration_s:.2f} s; the minimum is {_SHORTEST_S} s")
    return samples


def _check_wave(data: bytes) -> WaveLayout:
    """Return the layout of a WAVE file.

    Raises:
        ServiceError: it is damaged, or its header claims absurd figures.
    """
    layout = wave_file.read_layout(data)
    if layout is None:
        raise _refuse(_DAMAGED)
    if not 1 <= layout.channels <= _MOST_CHANNELS:
        raise _refuse(f"has {layout.channels} channels; the maximum is {_MOST_CHANNELS}")
    if not 1 <= layout.rate_hz <= _HIGHEST_RATE_HZ:
        rates = f"{layout.rate_hz} Hz; the maximum is {_HIGHEST_RATE_HZ} Hz"
        raise _refuse(f"has a rate of {rates}")
    return layout


def _read_wave(data: bytes, layout: WaveLayout, max_duration_s: int) -> Samples:
    # Before anything is computed, since a low rate makes a short file long.
    if layout.frames > max_duration_s * layout.rate_hz:
        raise _refuse_long(max_duration_s)
    return resample(wave_file.read(data, layout), layout.rate_hz, RATE_HZ)


async def _decode_by_program(data: bytes, max_duration_s: int) -> Samples:
    path = program.require("ffmpeg", NEEDS_PROGRAM, "file")
    # A file without a name, so that nothing is left of it if a process is killed.
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        file.seek(0)
        raw, log = await _run(_command(path, max_duration_s), file)
    samples = await asyncio.to_thread(_read_output, raw)
    duration_s = len(samples) / RATE_HZ
    if duration_s > max_duration_s:
        raise _refuse_long(max_duration_s)
    if not len(samples):
        raise _refuse(_reason(log))
    # Clients that stream a WAVE file state no length in its header.
    if not wave_file.is_wave(data):
        _check_whole(log, duration_s)
    return samples


def _read_output(raw: bytes) -> Samples:
    """Return the samples that ffmpeg wrote, none if it wrote no header."""
    layout = wave_file.read_layout(raw)
    return from_pcm(b"") if layout is None else wave_file.read(raw, layout)


def _command(path: str, max_duration_s: int) -> list[str]:
    """Return the command that decodes a seekable file on its standard input.

    Args:
        path: of ffmpeg.
    """
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
        "pipe:1",
        format="wav",
        acodec="pcm_s16le",
        # A mean of channels may cancel them: more than two become two here, and two one in `mix`.
        af="aformat=channel_layouts=mono|stereo",
        ar=RATE_HZ,
        t=max_duration_s + 1,
        threads=1,
    )
    sink = sink.global_args("-hide_banner", "-nostdin", "-nostats")
    command: list[str] = sink.compile(cmd=path)
    return command


async def _run(command: list[str], stdin: Any) -> tuple[bytes, bytes]:
    """Return a command's output and log."""
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
    """Return all of a stream, or the beginning and the end of a long log."""
    assert stream is not None
    data = bytearray()
    while chunk := await stream.read(256 * 1024):
        data += chunk
        if keep_end and len(data) > 2 * _KEPT_LOG_BYTES:
            del data[_KEPT_LOG_BYTES:-_KEPT_LOG_BYTES]
    return bytes(data)


def _check_whole(log: bytes, duration_s: float) -> None:
    """Refuse a recording that is much shorter than its header claims."""
    if (claim := _CLAIM.search(log)) is None or _ESTIMATED in log:
        return
    if _VIDEO.search(log) and not _CUT.search(log):
        return
    hours, minutes, seconds = map(float, claim.groups())
    claimed_s = hours * 3600 + minutes * 60 + seconds
    if claimed_s - duration_s > max(_TOLERATED_S, claimed_s * _TOLERATED_PART):
        raise _refuse(f"is truncated after {duration_s:.1f} of {claimed_s:.1f} seconds")


def _reason(log: bytes) -> str:
    """Return why ffmpeg gave no samples, for the error message."""
    if b"matches no streams" in log:
        return "has no audio track"
    return _DAMAGED


def _refuse(sentence: str) -> ServiceError:
    return ServiceError("invalid_request", f"The audio file {sentence}.", "file")


def _refuse_long(max_duration_s: int) -> ServiceError:
    return _refuse(f"is longer than {max_duration_s} seconds")
