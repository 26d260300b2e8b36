"""Whisper through the whole server: transcripts of recorded speech by the official client.

The recordings were spoken by espeak-ng; beside each lies the transcript of the bare library.
"""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import aiohttp
import numpy as np
import openai
import pytest

from shared.pb import worker_pb2, worker_pb2_grpc
from shared.rpc import open_channel
from tests.models.hearing import errors, words_of
from tests.server import ROOT, serve_fleet
from workers.audio.sound.samples import RATE_HZ
from workers.audio.sound.wave_file import write_header

SOUNDS = ROOT / "tests" / "data" / "audio"
# Two sentences.
SHORT = SOUNDS / "bicycle.flac"
# Sixteen sentences in a minute, without a pause where a window ends.
SENTENCES = SOUNDS / "sentences.ogg"
MODEL = {"model": "whisper-1"}
FORMS = ("/v1/audio/transcriptions", "/v1/audio/translations")


@pytest.fixture
def server(studio):
    return studio


@pytest.fixture
def client(studio_client):
    return studio_client


def encode(path: Path, *words: str) -> tuple[str, bytes]:
    """Return file name and data of the two sentences in another container."""
    command = ["ffmpeg", "-v", "error", "-y", "-i", str(SHORT), *words, str(path)]
    subprocess.run(command, check=True)
    return path.name, path.read_bytes()


def wave(samples) -> tuple[str, bytes]:
    """Return file name and data of 16-bit samples."""
    data = samples.tobytes()
    return "x.wav", write_header(RATE_HZ, len(data)) + data


def read(name: str) -> list[str]:
    return words_of((SOUNDS / name).read_text("utf-8"))


async def until_load(server, calls: int) -> None:
    """Wait until the worker has admitted some calls."""
    async with asyncio.timeout(60), open_channel(server.address()) as channel:
        pulse = worker_pb2_grpc.WorkerStub(channel).Pulse(worker_pb2.PulseRequest())
        while (beat := await pulse.read()).slots_active + beat.queue_depth < calls:
            pass
        pulse.cancel()


def files(server) -> set[Path]:
    return {path for path in server.temporary.rglob("*") if "mlx" not in path.parts}


def children(server) -> list[str]:
    (worker,) = server.find("workers.audio")
    return [child.name() for child in worker.children()]


async def test_every_container_gives_the_same_text_and_a_full_queue_refuses(
    client, server, tmp_path
):
    files = [
        encode(tmp_path / "bicycle.wav"),
        encode(tmp_path / "bicycle.mp3", "-ar", "44100", "-b:a", "192k"),
        encode(tmp_path / "bicycle.m4a", "-ar", "44100", "-b:a", "192k"),
        encode(tmp_path / "bicycle.opus", "-b:a", "128k"),
    ]
    make = client.audio.transcriptions.create
    asked = [asyncio.create_task(make(file=file, **MODEL)) for file in files]
    # The queue holds four, and each takes seconds.
    await until_load(server, 4)
    with pytest.raises(openai.InternalServerError, match="All slots are busy"):
        await make(file=SHORT, **MODEL)
    texts = [(await task).text for task in asked]
    assert texts[1:] == texts[:-1]
    said, bare = read("bicycle.said.txt"), read("bicycle.txt")
    assert errors(words_of(texts[0]), said) <= errors(bare, said)


async def test_a_long_recording_loses_no_sentence_and_streams_while_it_is_decoded(client):
    stream = await client.audio.transcriptions.create(file=SENTENCES, stream=True, **MODEL)
    *deltas, done = [event async for event in stream]
    assert len(deltas) >= 2
    assert "".join(event.delta for event in deltas) == done.text
    said, bare = read("sentences.said.txt"), read("sentences.txt")
    heard = words_of(done.text)
    assert errors(heard, said) <= errors(bare, said)
    for sentence in (SOUNDS / "sentences.said.txt").read_text("utf-8").splitlines():
        assert words_of(sentence)[-1] in heard, sentence


async def test_segments_and_words_have_times(client):
    answer = await client.audio.transcriptions.create(
        file=SHORT,
        response_format="verbose_json",
        timestamp_granularities=["segment", "word"],
        **MODEL,
    )
    assert answer.language == "english"
    assert 6 < answer.duration < 9
    assert "".join(segment.text for segment in answer.segments).strip() == answer.text
    assert [word.word for word in answer.words] == answer.text.split()
    times = [time for word in answer.words for time in (word.start, word.end)]
    assert times == sorted(times)
    assert 0 <= times[0] < 1
    assert answer.duration - 2 < times[-1] <= answer.duration


async def test_segments_with_words_leave_out_the_silence_around_them(client, tmp_path):
    _, raw = encode(tmp_path / "x.raw", "-f", "s16le", "-ar", "16000")
    said = np.frombuffer(raw, np.int16)
    gap = np.zeros(5 * RATE_HZ, np.int16)
    # The second half begins in the first window, and ends in another.
    sound = np.concatenate([gap, said, gap, gap, said, gap])
    answer = await client.audio.transcriptions.create(
        file=wave(sound),
        response_format="verbose_json",
        timestamp_granularities=["segment", "word"],
        **MODEL,
    )
    speech = [(5, 5 + len(said) / RATE_HZ), (15 + len(said) / RATE_HZ, len(sound) / RATE_HZ - 5)]
    starts, ends = ({getattr(word, edge) for word in answer.words} for edge in ("start", "end"))
    for segment in answer.segments:
        assert segment.start in starts and segment.end in ends
        within = [begin - 1 < segment.start < segment.end < end + 1 for begin, end in speech]
        assert any(within), segment
    assert len(answer.segments) >= 2


async def test_silence_and_a_hum_have_no_text(client):
    hum = 1500 * np.sin(np.arange(5 * 16_000) * 2 * np.pi * 50 / 16_000)
    for samples in (np.zeros(40 * 16_000, np.int16), hum.astype(np.int16)):
        answer = await client.audio.transcriptions.create(file=wave(samples), **MODEL)
        assert answer.text == ""


@pytest.mark.parametrize("path", FORMS)
async def test_uploads_that_are_not_recordings_are_refused_and_leave_no_files(server, path):
    junk = {
        "empty": b"",
        "text": b"hello, this is text",
        "noise": np.random.default_rng(0).bytes(50_000),
        "truncated": SHORT.read_bytes()[:30_000],
        "playlist": f"#EXTM3U\n#EXTINF:1,\nfile://{SHORT}\n".encode(),
    }
    before, kept = server.find("workers.audio"), files(server)
    async with aiohttp.ClientSession(server.url) as session:
        for name, data in junk.items():
            form = aiohttp.FormData({"model": "whisper-1"})
            form.add_field("file", data, filename="a.wav")
            async with session.post(path, data=form) as reply:
                error = (await reply.json())["error"]
                assert (reply.status, error["param"]) == (400, "file"), name
                assert error["message"].startswith("The audio file "), name
    assert server.find("workers.audio") == before
    assert children(server) == []
    assert files(server) == kept


async def test_a_language_unknown_to_the_model_is_refused(client):
    with pytest.raises(openai.BadRequestError, match="knows English only") as caught:
        await client.audio.transcriptions.create(file=SHORT, language="de", **MODEL)
    assert caught.value.param == "language"


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
async def test_another_language_is_translated_to_english(tmp_path_factory):
    worker = {
        "name": "recognition",
        "kind": "audio",
        "model": str(ROOT / "models" / "whisper-base"),
    }
    with serve_fleet(tmp_path_factory.mktemp("s"), worker) as server:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
            answer = await client.audio.translations.create(
                file=SOUNDS / "german.ogg", response_format="verbose_json", **MODEL
            )
    assert answer.language == "german"
    for words in ("my name is thomas", "germany", "beautiful"):
        assert words in " ".join(words_of(answer.text))


async def test_without_ffmpeg_and_espeak_wave_files_are_transcribed_and_the_rest_is_named(
    tmp_path_factory, tmp_path
):
    models = ROOT / "models"
    worker = {"name": "studio", "kind": "audio", "model": str(models / "whisper-tiny.en")}
    worker["speech_model"] = str(models / "Kokoro-82M")
    wave = encode(tmp_path / "bicycle.wav")
    bare = {"PATH": str(tmp_path / "nothing")}
    with serve_fleet(tmp_path_factory.mktemp("s"), worker, environ=bare) as server:
        async with openai.AsyncOpenAI(
            base_url=f"{server.url}/v1", api_key="none", max_retries=0
        ) as client:
            answer = await client.audio.transcriptions.create(file=wave, **MODEL)
            said, library = read("bicycle.said.txt"), read("bicycle.txt")
            assert errors(words_of(answer.text), said) <= errors(library, said)
            with pytest.raises(openai.InternalServerError, match="brew install ffmpeg") as caught:
                await client.audio.transcriptions.create(file=SHORT, **MODEL)
            assert (caught.value.status_code, caught.value.param) == (501, "file")
            with pytest.raises(openai.InternalServerError, match="espeak-ng") as caught:
                await client.audio.speech.create(input="Hello.", voice="alloy", model="tts-1")
            assert caught.value.status_code == 501
            (model,) = (await client.models.list()).data
            assert model.capabilities == ["transcription"]
        log = server.log.read_text()
        assert log.count("ffmpeg is not installed") == 1
        assert log.count("espeak-ng is not installed") == 1
