"""Speech is encoded in every format while it is made, and no encoder process is left behind."""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
import wave

import numpy as np
import psutil
import pytest

from shared.errors import ServiceError
from tests.server import none_lives
from tests.wait import wait_for
from workers.audio.sound import encoding
from workers.audio.sound.samples import to_pcm

pytestmark = pytest.mark.slow

RATE_HZ = 24_000
MAGIC = {
    "wav": b"RIFF",
    "mp3": b"\xff\xf3",
    "opus": b"OggS",
    "aac": b"\xff\xf1",
    "flac": b"fLaC",
    "pcm": b"",
}


def tone(seconds=0.5):
    samples = np.sin(np.arange(int(seconds * RATE_HZ)) * 2 * np.pi * 440 / RATE_HZ) / 2
    return to_pcm(samples.astype(np.float32))


async def tones(count, failure=None):
    for _ in range(count):
        yield tone()
    if failure is not None:
        raise failure


def decode(data, form):
    """Return the samples that ffmpeg decodes from a file."""
    raw = ["-f", "s16le", "-ar", str(RATE_HZ), "-ac", "1"]
    command = ["ffmpeg", "-v", "error", *(raw if form == "pcm" else []), "-i", "pipe:0", *raw]
    run = subprocess.run([*command, "pipe:1"], input=data, capture_output=True, check=True)
    return np.frombuffer(run.stdout, "<i2") / 32768


def encoders():
    return [child for child in psutil.Process().children() if child.name() == "ffmpeg"]


@pytest.mark.parametrize("form", encoding.FORMATS)
async def test_every_format_holds_all_samples(form):
    data = b"".join([p async for p in encoding.encode(tones(3), form, RATE_HZ, whole=False)])
    assert data.startswith(MAGIC[form])
    samples = decode(data, form)
    # Formats of fixed frames add up to two frames.
    assert 0 <= len(samples) / RATE_HZ - 1.5 < 0.12
    assert abs(np.sqrt(np.mean(samples**2)) - 0.354) < 0.03


@pytest.mark.parametrize("form", encoding.FORMATS)
async def test_data_is_yielded_before_the_speech_has_ended(form):
    more = asyncio.Event()

    async def slow():
        for _ in range(4):
            yield tone()
        await more.wait()
        yield tone()

    stream = encoding.encode(slow(), form, RATE_HZ, whole=False)
    async with asyncio.timeout(20):
        assert await anext(stream)
        more.set()
        assert [data async for data in stream]


async def test_the_header_of_a_whole_wave_file_states_its_length():
    (data,) = [data async for data in encoding.encode(tones(2), "wav", RATE_HZ, whole=True)]
    with wave.open(io.BytesIO(data)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, RATE_HZ)
        assert file.getnframes() == RATE_HZ
        assert file.readframes(RATE_HZ) == tone() * 2
    assert len(data) == 44 + 2 * RATE_HZ


async def test_without_ffmpeg_wave_and_pcm_are_made_and_the_rest_names_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    for form in encoding.FORMATS:
        if form in ("wav", "pcm"):
            encoding.check(form)
            data = b"".join(
                [p async for p in encoding.encode(tones(1), form, RATE_HZ, whole=False)]
            )
            assert data.endswith(tone())
        else:
            with pytest.raises(ServiceError, match="brew install ffmpeg") as caught:
                encoding.check(form)
            assert (caught.value.code, caught.value.param) == ("not_implemented", "response_format")


@pytest.mark.parametrize("form", ["wav", "mp3"])
async def test_a_failure_before_the_first_samples_yields_no_data(form):
    failure = ServiceError("internal", "nothing")
    with pytest.raises(ServiceError, match="nothing"):
        await anext(encoding.encode(tones(0, failure), form, RATE_HZ, whole=False))
    assert not encoders()


@pytest.mark.parametrize("form", ["pcm", "mp3"])
async def test_a_later_failure_is_raised_by_the_stream(form):
    stream = encoding.encode(tones(2, ServiceError("timeout", "late")), form, RATE_HZ, whole=False)
    with pytest.raises(ServiceError, match="late"):
        assert [data async for data in stream]
    assert not encoders()


async def test_closing_the_stream_ends_the_encoder():
    is_closed = asyncio.Event()

    async def endless():
        try:
            while True:
                yield tone()
                await asyncio.sleep(0)
        finally:
            is_closed.set()

    stream = encoding.encode(endless(), "flac", RATE_HZ, whole=False)
    assert await anext(stream)
    assert encoders()
    await stream.aclose()
    assert is_closed.is_set()
    assert not encoders()


async def test_a_killed_encoder_fails_the_stream():
    async def until_killed():
        for _ in range(1000):
            yield tone()
            await asyncio.sleep(0.01)

    stream = encoding.encode(until_killed(), "mp3", RATE_HZ, whole=False)
    assert await anext(stream)
    for encoder in encoders():
        encoder.kill()
    with pytest.raises(ServiceError, match="could not be encoded"):
        assert [data async for data in stream]


_ENDLESS = """
import asyncio, psutil
from workers.audio.sound import encoding
from workers.audio.sound.samples import to_pcm
async def tones():
    while True:
        yield bytes(48_000)
async def main():
    async for _ in encoding.encode(tones(), "mp3", 24_000, whole=False):
        print(psutil.Process().children()[0].pid, flush=True)
asyncio.run(main())
"""


def test_a_killed_worker_leaves_no_encoder():
    with subprocess.Popen([sys.executable, "-c", _ENDLESS], stdout=subprocess.PIPE) as worker:
        encoder = psutil.Process(int(worker.stdout.readline()))
        assert encoder.name() == "ffmpeg"
        worker.kill()
    wait_for(lambda: none_lives([encoder]))
