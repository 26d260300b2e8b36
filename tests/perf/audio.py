"""Seconds of audio per second, transcribed and synthesized: the bare library and this server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

import aiohttp

from tests.perf.contestant import StartError
from tests.perf.table import show
from tests.server import ROOT, serve_fleet

SOUND: Final = ROOT / "tests" / "data" / "audio" / "sentences.ogg"
_SOUND_S: Final = 54.8
_TOGETHER: Final = (1, 4)
# One piece of a text, and three.
_SENTENCE: Final = "The farmer painted his old barn red before the winter came."
_TEXTS: Final = {
    "a sentence": _SENTENCE,
    "three": f"{_SENTENCE} Nobody had seen the silver key since early morning. "
    "The library closes at six in the evening.",
}
_PCM_BYTES_PER_S: Final = 48_000
_LONGEST_S: Final = 3600
# Before each turn: the threads of the last contestant still spin.
_PAUSE_S: Final = 0.5


async def measure(whisper: Path, kokoro: Path, rounds: int) -> None:
    """Measure transcription of one recording and of several at once, and speech."""
    worker = {
        "name": "studio",
        "kind": "audio",
        "model": str(whisper),
        "speech_model": str(kokoro),
        "request_timeout_s": _LONGEST_S,
    }
    with (
        tempfile.TemporaryDirectory(prefix="mlxcel-perf-") as folder,
        serve_fleet(Path(folder), worker) as server,
    ):
        timeout = aiohttp.ClientTimeout(total=_LONGEST_S)
        async with aiohttp.ClientSession(server.url, timeout=timeout) as session:
            await _measure_hearing(whisper, session, rounds)
            await _measure_speaking(kokoro, session, rounds)


async def _measure_hearing(model: Path, session: aiohttp.ClientSession, rounds: int) -> None:
    rows = []
    with _bare("tests.perf.bare_audio", model, SOUND) as library:
        for count in _TOGETHER:
            bare, ours = [], []
            # In turn, so that other load affects both.
            for _ in range(rounds if count == 1 else 1):
                bare.append(await asyncio.to_thread(_ask, library, str(count)))
                ours.append(await _hear(session, count))
            speed, own = (count * _SOUND_S / median(times) for times in (bare, ours))
            rows.append({"at once": count, "bare": speed, "mlxcel": own, "ratio": own / speed})
    show(f"{model.name}: seconds of sound heard per second", rows)


async def _measure_speaking(model: Path, session: aiohttp.ClientSession, rounds: int) -> None:
    rows = []
    with _bare("tests.perf.bare_speech", model) as library:
        for name, text in _TEXTS.items():
            bare, ours, first, sound_s = [], [], [], 0.0
            for _ in range(rounds if name == "a sentence" else 1):
                bare.append(await asyncio.to_thread(_ask, library, text))
                first_s, whole_s, sound_s = await _speak(session, text)
                first.append(first_s)
                ours.append(whole_s)
            speed, own = (sound_s / median(times) for times in (bare, ours))
            rows.append(
                {
                    "text": name,
                    "sound s": sound_s,
                    "bare": speed,
                    "mlxcel": own,
                    "ratio": own / speed,
                    "first byte s": median(first),
                }
            )
    show(f"{model.name}: seconds of sound spoken per second", rows)


@contextmanager
def _bare(module: str, *paths: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a baseline and wait until it is ready."""
    command = [sys.executable, "-m", module, *map(str, paths)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as process:
        try:
            if _read(process) != "ready":
                raise StartError(f"{module} did not start")
            yield process
        finally:
            process.kill()


def _ask(process: subprocess.Popen[str], line: str) -> float:
    """Return the seconds of a job in the baseline."""
    assert process.stdin is not None
    time.sleep(_PAUSE_S)
    print(line, file=process.stdin, flush=True)
    return float(_read(process))


def _read(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


async def _hear(session: aiohttp.ClientSession, count: int) -> float:
    """Return the seconds of several simultaneous requests."""
    data = SOUND.read_bytes()
    await asyncio.sleep(_PAUSE_S)

    async def ask() -> None:
        form = aiohttp.FormData({"language": "en"})
        form.add_field("file", data, filename="a.ogg")
        async with session.post("/v1/audio/transcriptions", data=form) as reply:
            reply.raise_for_status()

    start_s = time.perf_counter()
    await asyncio.gather(*(ask() for _ in range(count)))
    return time.perf_counter() - start_s


async def _speak(session: aiohttp.ClientSession, text: str) -> tuple[float, float, float]:
    """Return the seconds to the first byte, to the last byte, and of audio."""
    body = {"model": "tts-1", "input": text, "response_format": "pcm"}
    await asyncio.sleep(_PAUSE_S)
    start_s = time.perf_counter()
    async with session.post("/v1/audio/speech", json=body) as reply:
        reply.raise_for_status()
        size_bytes = len(await reply.content.readany())
        first_s = time.perf_counter() - start_s
        size_bytes += len(await reply.content.read())
    return first_s, time.perf_counter() - start_s, size_bytes / _PCM_BYTES_PER_S
