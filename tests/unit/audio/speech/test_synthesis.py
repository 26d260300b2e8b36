"""A worker that listens and speaks: its calls over gRPC, on networks that need no weights."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace

import grpc.aio
import mlx.core as mx
import numpy as np
import psutil
import pytest

from shared.errors import ServiceError, from_rpc
from shared.pb import audio_pb2 as pb
from shared.pb import audio_pb2_grpc, worker_pb2
from shared.pb import common_pb2 as common
from shared.rpc import WorkerServer, open_channel
from tests.wait import until
from workers.audio.audio_models import AudioModels
from workers.audio.service import AudioService
from workers.audio.sound.encoding import pack, wave_header
from workers.audio.speech.kokoro import Kokoro
from workers.audio.speech.utterance import Utterance
from workers.model_thread import ModelThread

RATE_HZ = 24_000
# Three pieces, each more than a word.
TEXT = (
    "This is the first sentence of three in all. This is the second one, and it is longer. "
    "This is the third and the last of them."
)
HIGH = common.PRIORITY_HIGH


class Score:
    """What has been done, in order; each step takes a permit."""

    def __init__(self):
        self.permits = threading.Semaphore(0)
        self.begun = []

    def note(self, name):
        self.begun.append(name)
        assert self.permits.acquire(timeout=20)


class Network:
    """A voice without weights: a tenth of a second of a tone for whatever it is given."""

    vocab = {c: i for i, c in enumerate(" .,!?ˈˌabdefhijklmnopstuvwzðŋɑɔəɛɜɡɪɹʃʊʌθTIAOW")}  # noqa: RUF012
    sample_rate = RATE_HZ

    def __init__(self, score):
        self.score = score
        self.heard = []
        self.amplitude = 0.5

    def __call__(self, phonemes, style, speed):
        self.heard.append((phonemes, int(style.reshape(-1)[0].item()), speed))
        self.score.note("speak")
        return self.amplitude * mx.sin(mx.arange(RATE_HZ // 10) * 0.1)[None]


class Listener:
    """Hears nothing, in as many steps as it is told to."""

    def __init__(self, score):
        self.score = score
        self.steps = 3

    def check(self, request):
        pass

    def name_language(self, code):
        return "english"

    def step(self, jobs):
        job = jobs[0]
        job.serve()
        self.score.note("listen")
        job.said.append(0)
        if len(job.said) == self.steps:
            job.finish(job.transcript([]))


class Ear:
    """Hears from the lane."""

    def __init__(self):
        self.loop = asyncio.get_running_loop()
        self.is_ready = asyncio.Event()
        self.is_over = asyncio.Event()

    def ready(self):
        self.loop.call_soon_threadsafe(self.is_ready.set)

    def worked(self):
        pass

    def ended(self, failure):
        self.loop.call_soon_threadsafe(self.is_over.set)


@pytest.fixture
def styles(tmp_path):
    """Three voices, each of whose styles for n phonemes is n - 1, or 100 more, or 200."""
    made = {}
    for index, name in enumerate(("am_adam", "af_heart", "af_alloy")):
        made[name] = tmp_path / f"{name}.safetensors"
        rows = np.arange(60, dtype=np.float32) + 100 * index
        mx.save_safetensors(str(made[name]), {"voice": mx.array(rows[:, None, None])})
    return made


@pytest.fixture
async def booth(tmp_path, styles):
    """A worker with two places for each kind of call."""
    score = Score()
    network, listener = Network(score), Listener(score)
    ensemble = AudioModels(worker_pb2.ModelCard(), listener, Kokoro(network, styles))
    lane = ModelThread(lambda: ensemble, 2)
    lane.listener = Ear()
    server = WorkerServer(f"unix:{tmp_path}/a.sock", "mlxcel.v1.Audio")
    audio_pb2_grpc.add_AudioServicer_to_server(AudioService(lane, 60), server.server)
    await server.start()
    lane.thread.start()
    await lane.listener.is_ready.wait()
    async with open_channel(server.address) as channel:
        yield SimpleNamespace(
            score=score,
            network=network,
            listener=listener,
            lane=lane,
            stub=audio_pb2_grpc.AudioStub(channel),
        )
    score.permits.release(1000)
    lane.stop()
    await lane.listener.is_over.wait()
    await server.stop(0)


def ask(text=TEXT, form="pcm", **fields):
    return pb.SpeakRequest(text=text, format=form, speed=1, **fields)


def recording(**fields):
    samples = pack(np.ones(16_000, np.float32) / 2)
    return pb.TranscribeRequest(recording=wave_header(16_000, len(samples)) + samples, **fields)


def encoders():
    return [child for child in psutil.Process().children() if child.name() == "ffmpeg"]


async def read(call) -> bytes:
    return b"".join([sound.data async for sound in call])


async def refusal(call) -> ServiceError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await (call if not hasattr(call, "read") else read(call))
    return from_rpc(caught.value)


async def test_a_long_text_is_spoken_whole_a_piece_per_step(booth):
    booth.score.permits.release(100)
    data = await read(booth.stub.Speak(ask()))
    assert len(data) == 3 * 2 * RATE_HZ // 10
    assert booth.score.begun == ["speak"] * 3
    first, second, third = [phonemes for phonemes, _, _ in booth.network.heard]
    assert "fˈɜɹst" in first and "sˈɛkənd" in second and "θˈɜɹd" in third
    assert (first[-1], second.count(","), third[-1]) == (".", 1, ".")


async def test_sound_comes_while_the_rest_is_not_spoken_yet(booth):
    booth.score.permits.release(1)
    call = aiter(booth.stub.Speak(ask()))
    assert (await anext(call)).data
    await until(lambda: len(booth.score.begun) == 2)
    booth.score.permits.release(100)
    assert [sound.data async for sound in call]


@pytest.mark.parametrize(
    ("given", "index"),
    [("", 1), ("af_heart", 1), ("am_adam", 0), ("adam", 0), ("alloy", 2), ("../x", 1)],
)
async def test_a_voice_has_a_style_for_each_length_and_an_unknown_one_is_the_default(
    booth, given, index
):
    booth.score.permits.release(1)
    assert await read(booth.stub.Speak(ask("Hello there.", voice=given)))
    ((phonemes, style, _),) = booth.network.heard
    assert style == 100 * index + len(phonemes) - 1


async def test_a_voice_whose_file_is_broken_fails_alone(booth, styles):
    styles["am_adam"].write_bytes(b"no arrays")
    booth.score.permits.release(100)
    failure = await refusal(booth.stub.Speak(ask(voice="am_adam")))
    assert (failure.code, "am_adam" in failure.message) == ("internal", True)
    assert await read(booth.stub.Speak(ask()))


async def test_more_phonemes_than_a_step_takes_are_several_steps(booth):
    booth.score.permits.release(100)
    assert await read(booth.stub.Speak(ask("1234567890123456789 " * 9)))
    spoken = [phonemes for phonemes, _, _ in booth.network.heard]
    assert all(0 < len(phonemes) <= 250 for phonemes in spoken)
    assert "".join(spoken).count("θˈWzənd") == 9


@pytest.mark.parametrize("text", ["...", "🙂 — 🙃", "\n\n"])
async def test_a_text_without_a_word_is_refused(booth, text):
    failure = await refusal(booth.stub.Speak(ask(text, "mp3")))
    assert (failure.code, failure.param) == ("invalid_request", "input")
    assert not booth.score.begun


async def test_silence_for_words_is_a_failure(booth):
    booth.score.permits.release(1)
    booth.network.amplitude = 1e-5
    assert (await refusal(booth.stub.Speak(ask("Hello.", "flac")))).code == "internal"


async def test_a_sentence_waits_for_one_window_of_a_recording_and_a_recording_for_one_sentence(
    booth,
):
    heard = asyncio.ensure_future(booth.stub.Transcribe(recording()))
    await until(lambda: booth.score.begun == ["listen"])
    said = asyncio.ensure_future(read(booth.stub.Speak(ask())))
    await until(lambda: booth.lane._inbox.qsize() == 1)
    for done in range(1, 6):
        booth.score.permits.release(1)
        await until(lambda: len(booth.score.begun) > done)  # noqa: B023
        if booth.score.begun[-1] == "listen" and len(booth.network.heard) < 3:
            # The next sentence comes while the window is listened to.
            await until(lambda: booth.lane._inbox.qsize() == 1)
    booth.score.permits.release(100)
    await asyncio.gather(heard, said)
    assert booth.score.begun == ["listen", "speak"] * 3


async def test_a_piece_of_an_earlier_text_goes_behind_those_that_wait():
    first, later = ask(arrival_ns=1), ask(arrival_ns=2)
    began, waiting, next_one = (Utterance(r, "ə", "af_heart", None) for r in (first, later, first))
    assert began.rank(0) <= waiting.rank(0) <= next_one.rank(0)


async def test_a_high_class_goes_before_the_other_kind(booth):
    heard = asyncio.ensure_future(booth.stub.Transcribe(recording(priority=HIGH)))
    await until(lambda: booth.score.begun == ["listen"])
    said = asyncio.ensure_future(read(booth.stub.Speak(ask("Hello there."))))
    await until(lambda: booth.lane._inbox.qsize() == 1)
    booth.score.permits.release(100)
    await asyncio.gather(heard, said)
    assert booth.score.begun == ["listen", "listen", "listen", "speak"]


async def test_recordings_and_texts_have_places_of_their_own(booth):
    held = [asyncio.ensure_future(booth.stub.Transcribe(recording())) for _ in range(2)]
    await until(lambda: sum(booth.lane.load()) == 2)
    assert (await refusal(booth.stub.Transcribe(recording()))).code == "server_busy"
    held += [asyncio.ensure_future(read(booth.stub.Speak(ask()))) for _ in range(2)]
    await until(lambda: sum(booth.lane.load()) == 4)
    assert (await refusal(booth.stub.Speak(ask()))).code == "server_busy"
    booth.score.permits.release(100)
    await asyncio.gather(*held)
    assert await read(booth.stub.Speak(ask()))


async def test_a_client_that_leaves_frees_its_place_and_its_encoder(booth):
    booth.score.permits.release(1)
    call = booth.stub.Speak(ask(form="flac"))
    assert (await call.read()).data
    assert encoders()
    call.cancel()
    await until(lambda: not encoders())
    booth.score.permits.release(1)
    await until(lambda: sum(booth.lane.load()) == 0)
    booth.score.permits.release(100)
    # Another call comes after all that is left of this one.
    await read(booth.stub.Speak(ask("Hello there.")))
    assert len(booth.network.heard) == 3


async def test_a_call_out_of_time_ends(booth):
    assert (await refusal(booth.stub.Speak(ask(), timeout=0.3))).code == "timeout"
    booth.score.permits.release(1)
    await until(lambda: sum(booth.lane.load()) == 0)


@pytest.mark.parametrize("kind", ["stt", "tts"])
async def test_what_there_is_no_model_for_is_said(kind):
    empty = AudioModels(worker_pb2.ModelCard(), None, None)
    name = {"stt": "listener", "tts": "speaker"}[kind]
    with pytest.raises(ServiceError, match=f"audio model kind not loaded: {kind}") as caught:
        getattr(empty, name)
    assert caught.value.code == "not_implemented"
