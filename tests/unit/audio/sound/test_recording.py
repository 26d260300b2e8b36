"""Uploads become samples within bounds, or a refusal that says why."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from pathlib import Path

import numpy as np
import psutil
import pytest

from shared.errors import ServiceError
from tests.wait import until
from workers.audio.sound import recording

SPEECH = Path(__file__).parents[3] / "data" / "audio" / "bicycle.flac"


def ffmpeg(*words, data=b""):
    command = ["ffmpeg", "-v", "error", *words, "pipe:1"]
    return subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout


def speech(*words):
    """Return two spoken sentences in another form."""
    return ffmpeg("-i", "pipe:0", *words, data=SPEECH.read_bytes())


async def refusal(data, longest_s=600):
    with pytest.raises(ServiceError) as caught:
        await recording.decode(data, longest_s)
    assert (caught.value.code, caught.value.param) == ("invalid_request", "file")
    return caught.value.message


@pytest.mark.parametrize(
    "words",
    [
        ("-f", "wav"),
        ("-f", "wav", "-ac", "2", "-ar", "44100"),
        ("-f", "wav", "-c:a", "pcm_f32le"),
        ("-f", "mp3"),
        ("-f", "adts"),
        ("-f", "ogg", "-c:a", "libopus"),
        ("-f", "flac"),
        ("-f", "webm", "-c:a", "libopus"),
        ("-f", "mp4", "-movflags", "frag_keyframe+empty_moov"),
    ],
)
async def test_any_container_gives_the_same_sound(words):
    expected = await recording.decode(SPEECH.read_bytes(), 600)
    samples = await recording.decode(speech(*words), 600)
    assert abs(len(samples) - len(expected)) < 0.15 * recording.RATE_HZ
    level = np.sqrt(np.mean(samples**2)) / np.sqrt(np.mean(expected**2))
    assert 0.7 < level < 1.3


async def test_an_index_at_the_end_of_the_file_is_found(tmp_path):
    path = tmp_path / "speech.m4a"
    speech(str(path), "-f", "null")
    data = path.read_bytes()
    assert data.index(b"moov") > data.index(b"mdat")
    assert len(await recording.decode(data, 600)) > 5 * recording.RATE_HZ


async def test_a_wave_file_whose_header_claims_more_is_taken_as_it_is():
    assert len(await recording.decode(speech("-f", "wav")[:90_000], 600)) > 2 * recording.RATE_HZ


async def test_what_breaks_off_is_refused(tmp_path):
    path = tmp_path / "short.flac"
    speech("-t", "1.5", str(path), "-f", "null")
    for data in (SPEECH.read_bytes(), path.read_bytes()):
        assert "breaks off after" in await refusal(data[: len(data) // 2])


@pytest.mark.parametrize("form", ["mp3", "adts"])
async def test_a_length_that_is_a_guess_is_not_believed(form):
    # Without a header, the length is guessed from the first packets: here those of silence.
    words = ("-af", "adelay=6s", "-q:a", "1", "-write_xing", "0", "-id3v2_version", "0")
    samples = await recording.decode(speech(*words[: 4 if form == "adts" else 8], "-f", form), 600)
    assert len(samples) > 12 * recording.RATE_HZ


@pytest.mark.parametrize("is_cut", [False, True])
async def test_pictures_may_go_on_when_the_sound_has_ended(is_cut, tmp_path):
    path = tmp_path / "film.mkv"
    pictures = ("-f", "lavfi", "-i", "testsrc=d=20:s=64x64:r=5", "-i", "pipe:0")
    coding = ("-c:v", "mpeg4", "-c:a", "libopus")
    ffmpeg(*pictures, *coding, str(path), "-f", "null", data=SPEECH.read_bytes())
    film = path.read_bytes()
    if is_cut:
        assert "breaks off after" in await refusal(film[: len(film) // 2])
    else:
        assert len(await recording.decode(film, 600)) > 5 * recording.RATE_HZ


@pytest.mark.parametrize("data", [b"hello, this is text", bytes(50_000), b"RIFF\0\0\0\0WAVEfmt "])
async def test_what_is_no_recording_is_refused(data):
    assert "can't be decoded" in await refusal(data)


async def test_nothing_is_refused():
    assert "is empty" in await refusal(b"")


async def test_pictures_without_sound_are_refused():
    film = ffmpeg("-f", "lavfi", "-i", "testsrc=d=1:s=64x64", "-f", "matroska")
    assert "has no sound" in await refusal(film)


async def test_a_file_that_unfolds_to_hours_is_stopped():
    bomb = ffmpeg("-f", "lavfi", "-i", "anullsrc=r=8000:cl=mono", "-t", "60", "-f", "flac")
    assert len(bomb) < 60_000
    assert "is longer than 20 seconds" in await refusal(bomb, 20)


async def test_a_blink_is_refused():
    assert "is too short" in await refusal(speech("-t", "0.05", "-f", "wav"))


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [(22, (9).to_bytes(2, "little"), "channels"), (24, (10**6).to_bytes(4, "little"), "rate")],
)
async def test_a_wave_header_that_asks_for_too_much_is_refused(place, value, said):
    data = bytearray(speech("-f", "wav"))
    data[place : place + len(value)] = value
    assert said in await refusal(bytes(data))


async def test_a_playlist_opens_nothing():
    listed = f"#EXTM3U\n#EXTINF:1,\nfile://{SPEECH}\n#EXT-X-ENDLIST\n"
    assert "can't be decoded" in await refusal(listed.encode())
    assert "can't be decoded" in await refusal(f"ffconcat version 1.0\nfile {SPEECH}\n".encode())


async def test_a_caller_that_leaves_takes_the_process_along():
    before = set(psutil.Process().children())
    task = asyncio.create_task(recording.decode(SPEECH.read_bytes(), 600))
    await until(lambda: bool(set(psutil.Process().children()) - before))
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert set(psutil.Process().children()) <= before
