"""Seconds of sound that are transcribed per second: the bare library beside the whole server."""

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


async def measure(model: Path, rounds: int) -> None:
    """Print a row for one recording at a time, and one for several."""
    worker = {"name": "ear", "kind": "audio", "model": str(model), "request_timeout_s": 3600}
    folder = Path(tempfile.mkdtemp(prefix="mlxcel-perf-"))
    with bare(model) as library, serve_fleet(folder, worker) as server:
        rows = []
        for count in _TOGETHER:
            taken: dict[str, list[float]] = {"bare": [], "mlxcel": []}
            # In turn, so that what else the machine does meets both.
            for _ in range(rounds):
                taken["bare"].append(await asyncio.to_thread(run_bare, library, count))
                taken["mlxcel"].append(await run(server.url, count))
            speed = {name: count * _SOUND_S / median(times) for name, times in taken.items()}
            rows.append({"at once": count, **speed, "ratio": speed["mlxcel"] / speed["bare"]})
    show(f"{model.name}: seconds of sound per second", rows)


@contextmanager
def bare(model: Path) -> Iterator[subprocess.Popen[str]]:
    """Yield the yardstick, ready."""
    command = [sys.executable, "-m", "tests.perf.bare_audio", str(model), str(SOUND)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as process:
        try:
            if _read(process) != "ready":
                raise StartError("the bare library did not start")
            yield process
        finally:
            process.kill()


def run_bare(process: subprocess.Popen[str], count: int) -> float:
    """Return the seconds that some transcriptions take, one after the other."""
    assert process.stdin is not None
    print(count, file=process.stdin, flush=True)
    return float(_read(process))


def _read(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


async def run(url: str, count: int) -> float:
    """Return the seconds that some requests take together."""
    data = SOUND.read_bytes()
    timeout = aiohttp.ClientTimeout(total=3600)
    async with aiohttp.ClientSession(url, timeout=timeout) as session:

        async def ask() -> None:
            form = aiohttp.FormData({"language": "en"})
            form.add_field("file", data, filename="a.ogg")
            async with session.post("/v1/audio/transcriptions", data=form) as reply:
                reply.raise_for_status()

        start_s = time.perf_counter()
        await asyncio.gather(*(ask() for _ in range(count)))
        return time.perf_counter() - start_s
