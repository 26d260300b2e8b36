"""Streams speech in the format that a client asks for.

Owns the ffmpeg process that encodes every compressed format; WAVE and PCM need none. Runs on the
event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import ffmpeg

from shared.errors import ServiceError
from workers.audio.sound import program
from workers.audio.sound.wave_file import write_header

# What is lost without ffmpeg.
NEEDS_PROGRAM: Final = "speech can only be sent as WAV and PCM"
_READ_BYTES = 64 * 1024
# Format → ffmpeg's output options: short pages, for a low latency, and no table at the beginning
# that would be filled in at the end.
_ENCODINGS: dict[str, dict[str, object]] = {
    "mp3": {
        "format": "mp3",
        "acodec": "libmp3lame",
        "audio_bitrate": "64k",
        "write_xing": 0,
        "id3v2_version": 0,
    },
    "opus": {
        "format": "ogg",
        "acodec": "libopus",
        "audio_bitrate": "48k",
        "page_duration": 200_000,
    },
    "aac": {"format": "adts", "acodec": "aac", "audio_bitrate": "96k"},
    "flac": {"format": "flac", "acodec": "flac"},
}
FORMATS = ("wav", "pcm", *_ENCODINGS)


def check(form: str) -> None:
    """Refuse a format that can't be made here.

    Raises:
        ServiceError: `invalid_request`, there is no such format; `not_implemented`, it needs
            ffmpeg, which is not installed.
    """
    if form not in FORMATS:
        known = ", ".join(FORMATS)
        raise ServiceError(
            "invalid_request", f"response_format: must be one of {known}", "response_format"
        )
    if form in _ENCODINGS:
        _find_program()


def _find_program() -> str:
    return program.require("ffmpeg", NEEDS_PROGRAM, "response_format")


async def encode(
    pieces: AsyncGenerator[bytes], form: str, rate_hz: int, *, whole: bool
) -> AsyncGenerator[bytes]:
    """Yield speech in a format, while its samples are made.

    Args:
        pieces: 16-bit PCM; closed at the end.
        form: one of `FORMATS`.
        whole: hold a WAVE file back until its header can state its length.

    Raises:
        ServiceError: raised by `pieces`, or the encoder failed.
    """
    async with aclosing(pieces):
        if form == "wav" and whole:
            data = b"".join([piece async for piece in pieces])
            yield write_header(rate_hz, len(data)) + data
            return
        # A failure before the first samples must not follow the beginning of a file.
        first = await anext(pieces, b"")
        if form in _ENCODINGS:
            command = _command(_find_program(), form, rate_hz)
            async with aclosing(_run(command, _chain(first, pieces))) as encoded:
                async for data in encoded:
                    yield data
            return
        yield (write_header(rate_hz, None) if form == "wav" else b"") + first
        async for piece in pieces:
            yield piece


async def _chain(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    yield first
    async for piece in rest:
        yield piece


def _command(path: str, form: str, rate_hz: int) -> list[str]:
    source = ffmpeg.input(
        "pipe:0",
        format="s16le",
        ac=1,
        ar=rate_hz,
        protocol_whitelist="pipe",
        # Raw samples need no probing.
        probesize=32,
        analyzeduration=0,
    )
    sink = source.output("pipe:1", flush_packets=1, threads=1, **_ENCODINGS[form])
    sink = sink.global_args("-hide_banner", "-loglevel", "error")
    command: list[str] = sink.compile(cmd=path)
    return command


async def _run(command: list[str], pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Yield the output of a command that reads `pieces` on stdin."""
    streams = {"stdin": program.PIPE, "stdout": program.PIPE, "stderr": program.NONE}
    async with program.run(command, **streams) as process:
        assert process.stdin is not None and process.stdout is not None
        feeding = asyncio.ensure_future(_feed(process.stdin, pieces))
        try:
            while data := await process.stdout.read(_READ_BYTES):
                yield data
            await feeding
            if await process.wait() != 0:
                raise ServiceError("internal", "The speech could not be encoded.")
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)


async def _feed(stdin: asyncio.StreamWriter, pieces: AsyncGenerator[bytes]) -> None:
    try:
        async with aclosing(pieces):
            async for piece in pieces:
                stdin.write(piece)
                await stdin.drain()
    except ConnectionError:
        # The process has ended; its exit code is checked by `_run`.
        pass
    finally:
        stdin.close()
