"""Uploads are decoded within bounds, or refused with the reason."""

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
from workers.audio.sound.samples import RATE_HZ
from workers.audio.sound.wave_file import write_header

pytestmark = pytest.mark.slow

SPEECH = Path(__file__).parents[3] / "data" / "audio" / "bicycle.flac"


def ffmpeg(*words, data=b""):
    command = ["ffmpeg", "-v", "error", *words, "pipe:1"]
    return subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout


def speech(*words):
    """Return two spoken sentences in another form."""
    return ffmpeg("-i", "pipe:0", *words, data=SPEECH.read_bytes())


async def refusal(data, max_duration_s=600):
    with pytest.raises(ServiceError) as caught:
        await recording.decode(data, max_duration_s)
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
async def test_any_container_is_decoded_to_the_same_sound(words):
    expected = await recording.decode(SPEECH.read_bytes(), 600)
    samples = await recording.decode(speech(*words), 600)
    assert abs(len(samples) - len(expected)) < 0.15 * RATE_HZ
    level = np.sqrt(np.mean(samples**2)) / np.sqrt(np.mean(expected**2))
    assert 0.7 < level < 1.3


async def test_an_index_at_the_end_of_the_file_is_found(tmp_path):
    path = tmp_path / "speech.m4a"
    speech(str(path), "-f", "null")
    data = path.read_bytes()
    assert data.index(b"moov") > data.index(b"mdat")
    assert len(await recording.decode(data, 600)) > 5 * RATE_HZ


async def test_a_wave_file_shorter_than_its_header_claims_is_accepted():
    assert len(await recording.decode(speech("-f", "wav")[:90_000], 600)) > 2 * RATE_HZ


async def test_a_truncated_recording_is_refused(tmp_path):
    path = tmp_path / "short.flac"
    speech("-t", "1.5", str(path), "-f", "null")
    for data in (SPEECH.read_bytes(), path.read_bytes()):
        assert "is truncated after" in await refusal(data[: len(data) // 2])


@pytest.mark.parametrize("form", ["mp3", "adts"])
async def test_an_estimated_duration_is_ignored(form):
    # Without a header, ffmpeg estimates the duration from the first packets: here of silence.
    words = ("-af", "adelay=6s", "-q:a", "1", "-write_xing", "0", "-id3v2_version", "0")
    samples = await recording.decode(speech(*words[: 4 if form == "adts" else 8], "-f", form), 600)
    assert len(samples) > 12 * RATE_HZ


@pytest.mark.parametrize("is_cut", [False, True])
async def test_a_video_may_be_longer_than_its_sound(is_cut, tmp_path):
    path = tmp_path / "film.mkv"
    pictures = ("-f", "lavfi", "-i", "testsrc=d=20:s=64x64:r=5", "-i", "pipe:0")
    coding = ("-c:v", "mpeg4", "-c:a", "libopus")
    ffmpeg(*pictures, *coding, str(path), "-f", "null", data=SPEECH.read_bytes())
    film = path.read_bytes()
    if is_cut:
        assert "is truncated after" in await refusal(film[: len(film) // 2])
    else:
        assert len(await recording.decode(film, 600)) > 5 * RATE_HZ


async def test_wave_files_need_no_ffmpeg(monkeypatch, tmp_path):
    files = [
        speech("-f", "wav", *words)
        for words in ((), ("-ac", "2", "-ar", "44100"), ("-ar", "8000", "-c:a", "pcm_u8"))
    ]
    expected = await recording.decode(SPEECH.read_bytes(), 600)
    monkeypatch.setenv("PATH", str(tmp_path))
    for data in files:
        samples = await recording.decode(data, 600)
        assert abs(len(samples) - len(expected)) < 0.01 * RATE_HZ
        assert np.corrcoef(samples[: len(expected)], expected[: len(samples)])[0, 1] > 0.95


@pytest.mark.parametrize(
    "words", [("-f", "flac"), ("-f", "mp3"), ("-f", "wav", "-c:a", "pcm_alaw")]
)
async def test_other_formats_name_ffmpeg_where_it_is_missing(words, monkeypatch, tmp_path):
    data = speech(*words)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServiceError, match=r"ffmpeg is not installed.*brew install") as caught:
        await recording.decode(data, 600)
    assert (caught.value.code, caught.value.param) == ("not_implemented", "file")


async def test_a_damaged_wave_file_is_refused_without_ffmpeg(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "can't be decoded" in await refusal(b"RIFF\0\0\0\0WAVEfmt ")


async def test_a_wave_file_of_a_low_rate_is_refused_before_it_is_decoded():
    assert "is longer than 600" in await refusal(write_header(1, None) + bytes(4000))


@pytest.mark.parametrize("data", [b"hello, this is text", bytes(50_000), b"RIFF\0\0\0\0WAVEfmt "])
async def test_data_that_is_not_a_recording_is_refused(data):
    assert "can't be decoded" in await refusal(data)


async def test_an_empty_file_is_refused():
    assert "is empty" in await refusal(b"")


async def test_a_video_without_sound_is_refused():
    film = ffmpeg("-f", "lavfi", "-i", "testsrc=d=1:s=64x64", "-f", "matroska")
    assert "has no audio track" in await refusal(film)


async def test_decoding_stops_at_the_longest_duration():
    bomb = ffmpeg("-f", "lavfi", "-i", "anullsrc=r=8000:cl=mono", "-t", "60", "-f", "flac")
    assert len(bomb) < 60_000
    assert "is longer than 20 seconds" in await refusal(bomb, 20)


async def test_a_recording_below_the_minimum_duration_is_refused():
    assert "is too short" in await refusal(speech("-t", "0.05", "-f", "wav"))


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [(22, (9).to_bytes(2, "little"), "channels"), (24, (10**6).to_bytes(4, "little"), "rate")],
)
async def test_absurd_figures_in_a_wave_header_are_refused(offset, value, message):
    data = bytearray(speech("-f", "wav"))
    data[offset : offset + len(value)] = value
    assert message in await refusal(bytes(data))


async def test_files_named_by_a_playlist_are_not_opened():
    listed = f"#EXTM3U\n#EXTINF:1,\nfile://{SPEECH}\n#EXT-X-ENDLIST\n"
    assert "can't be decoded" in await refusal(listed.encode())
    assert "can't be decoded" in await refusal(f"ffconcat version 1.0\nfile {SPEECH}\n".encode())


async def test_cancelling_the_caller_ends_the_process():
    before = set(psutil.Process().children())
    task = asyncio.create_task(recording.decode(SPEECH.read_bytes(), 600))
    await until(lambda: bool(set(psutil.Process().children()) - before))
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert set(psutil.Process().children()) <= before
