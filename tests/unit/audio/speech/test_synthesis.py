"""Calls to an audio worker over gRPC, with networks that need no weights."""

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
from workers.audio.sound.samples import to_pcm
from workers.audio.sound.wave_file import write_header
from workers.audio.speech import phoneme
from workers.audio.speech.kokoro import Kokoro
from workers.audio.speech.utterance import Utterance
from workers.model_thread import ModelThread

RATE_HZ = 24_000
# Of one step. Long, so that the steps count as fast even when they wait for a permit.
SOUND_S = 4
# Three pieces, each more than a word.
TEXT = (
    "This is the first sentence of three in all. This is the second one, and it is longer. "
    "This is the third and the last of them."
)
HIGH = common.PRIORITY_HIGH


class StepLog:
    """The steps that were begun, in order; each waits for a permit."""

    def __init__(self):
        self.permits = threading.Semaphore(0)
        self.begun = []

    def step(self, name):
        self.begun.append(name)
        assert self.permits.acquire(timeout=20)


class Network:
    """A network without weights: returns some seconds of a tone."""

    vocab = {c: i for i, c in enumerate(" .,!?ˈˌabdefhijklmnopstuvwzðŋɑɔəɛɜɡɪɹʃʊʌθTIAOW")}  # noqa: RUF012
    sample_rate = RATE_HZ

    def __init__(self, log):
        self.log = log
        self.calls = []
        self.amplitude = 0.5

    def __call__(self, phonemes, style, speed):
        self.calls.append((phonemes, int(style.reshape(-1)[0].item()), speed))
        self.log.step("synthesize")
        return self.amplitude * mx.sin(mx.arange(SOUND_S * RATE_HZ) * 0.1)[None]


class FakeTranscriber:
    """Returns an empty transcript after some steps."""

    def __init__(self, log):
        self.log = log
        self.steps = 3

    def check(self, request):
        pass

    def name_language(self, code):
        return "english"

    def step(self, jobs):
        job = jobs[0]
        job.serve()
        self.log.step("transcribe")
        job.text_tokens.append(0)
        if len(job.text_tokens) == self.steps:
            job.finish(job.make_transcript([]))


class Observer:
    def __init__(self):
        self.loop = asyncio.get_running_loop()
        self.is_ready = asyncio.Event()
        self.is_over = asyncio.Event()

    def ready(self):
        self.loop.call_soon_threadsafe(self.is_ready.set)

    def load_changed(self):
        pass

    def rest(self, idle_s):
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
async def worker(tmp_path, styles):
    """An audio worker that admits two calls of each kind."""
    log = StepLog()
    network, transcriber = Network(log), FakeTranscriber(log)
    models = AudioModels(worker_pb2.ModelCard(), transcriber, Kokoro(network, styles))
    model_thread = ModelThread(lambda: models, 2)
    model_thread.observer = Observer()
    server = WorkerServer(f"unix:{tmp_path}/a.sock", "mlxcel.v1.Audio")
    audio_pb2_grpc.add_AudioServicer_to_server(AudioService(model_thread, 60), server.server)
    await server.start()
    model_thread.thread.start()
    await model_thread.observer.is_ready.wait()
    async with open_channel(server.address) as channel:
        yield SimpleNamespace(
            log=log,
            network=network,
            transcriber=transcriber,
            model_thread=model_thread,
            stub=audio_pb2_grpc.AudioStub(channel),
        )
    log.permits.release(1000)
    model_thread.stop()
    await model_thread.observer.is_over.wait()
    await server.stop(0)


def ask(text=TEXT, form="pcm", speed=1, **fields):
    return pb.SpeakRequest(text=text, format=form, speed=speed, **fields)


def recording(**fields):
    samples = to_pcm(np.ones(16_000, np.float32) / 2)
    return pb.TranscribeRequest(recording=write_header(16_000, len(samples)) + samples, **fields)


def encoders():
    return [child for child in psutil.Process().children() if child.name() == "ffmpeg"]


async def read(call) -> bytes:
    return b"".join([sound.data async for sound in call])


async def refusal(call) -> ServiceError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await (call if not hasattr(call, "read") else read(call))
    return from_rpc(caught.value)


async def test_a_long_text_is_synthesized_one_piece_per_step(worker):
    worker.log.permits.release(100)
    data = await read(worker.stub.Speak(ask()))
    assert len(data) == 3 * 2 * SOUND_S * RATE_HZ
    assert worker.log.begun == ["synthesize"] * 3
    first, second, third = [phonemes for phonemes, _, _ in worker.network.calls]
    assert "fˈɜɹst" in first and "sˈɛkənd" in second and "θˈɜɹd" in third
    assert (first[-1], second.count(","), third[-1]) == (".", 1, ".")


async def test_sound_is_sent_before_the_rest_is_synthesized(worker):
    worker.log.permits.release(1)
    call = aiter(worker.stub.Speak(ask()))
    assert (await anext(call)).data
    await until(lambda: len(worker.log.begun) == 2)
    worker.log.permits.release(100)
    assert [sound.data async for sound in call]


@pytest.mark.parametrize(
    ("given", "index"),
    [("", 1), ("af_heart", 1), ("am_adam", 0), ("adam", 0), ("alloy", 2), ("../x", 1)],
)
async def test_a_voice_has_a_style_per_length_and_an_unknown_voice_means_the_default(
    worker, given, index
):
    worker.log.permits.release(1)
    assert await read(worker.stub.Speak(ask("Hello there.", voice=given)))
    ((phonemes, style, _),) = worker.network.calls
    assert style == 100 * index + len(phonemes) - 1


async def test_a_voice_whose_file_is_broken_fails_alone(worker, styles):
    styles["am_adam"].write_bytes(b"no arrays")
    worker.log.permits.release(100)
    failure = await refusal(worker.stub.Speak(ask(voice="am_adam")))
    assert (failure.code, "am_adam" in failure.message) == ("internal", True)
    assert await read(worker.stub.Speak(ask()))


async def test_many_phonemes_are_synthesized_in_several_steps(worker):
    worker.log.permits.release(100)
    assert await read(worker.stub.Speak(ask("1234567890123456789 " * 9)))
    parts = [phonemes for phonemes, _, _ in worker.network.calls]
    assert all(0 < len(phonemes) <= 250 for phonemes in parts)
    assert "".join(parts).count("θˈWzənd") == 9


@pytest.mark.parametrize(("speed", "steps"), [(4, 1), (1, 1), (0.5, 2), (0.25, 3)])
async def test_slow_speech_is_synthesized_in_steps_of_the_same_duration(worker, speed, steps):
    worker.log.permits.release(100)
    text = "the quick brown fox jumps over the lazy dog " * 4
    assert await read(worker.stub.Speak(ask(text, speed=speed)))
    parts = [phonemes for phonemes, _, _ in worker.network.calls]
    assert len(parts) == steps
    assert len(" ".join(parts).split()) == len((await phoneme.convert(text, "af_heart")).split())


async def test_a_device_that_is_slow_gets_shorter_steps(styles):
    log = StepLog()
    log.permits.release(100)
    kokoro = Kokoro(Network(log), styles)
    assert [len(part) for part in kokoro.split("abi " * 50, 1)] == [199]
    for _ in range(10):
        kokoro.note_step(sound_s=10, took_s=30)
    parts = list(kokoro.split("abi " * 50, 1))
    assert len(parts) == 3
    assert all(len(part) <= 70 for part in parts)


@pytest.mark.parametrize("text", ["...", "*** — ***", "\n\n"])
async def test_a_text_without_a_word_is_refused(worker, text):
    failure = await refusal(worker.stub.Speak(ask(text, "mp3")))
    assert (failure.code, failure.param) == ("invalid_request", "input")
    assert not worker.log.begun


@pytest.mark.parametrize("voice", ["af_heart", "jf_alpha"])
async def test_a_script_that_the_voice_does_not_speak_is_refused_before_any_sound(worker, voice):
    failure = await refusal(worker.stub.Speak(ask(f"{TEXT} これは日本語です。", voice=voice)))
    assert (failure.code, failure.param) == ("invalid_request", "input")
    assert "Hiragana script" in failure.message
    assert not worker.log.begun


async def test_numbers_and_signs_are_spoken_as_words(worker):
    worker.log.permits.release(100)
    assert await read(worker.stub.Speak(ask("It cost **$5.3 billion** at 10:00 🙂.")))
    ((first, *_),) = worker.network.calls[:1]
    for word in ("fˈIv", "bˈɪliən", "dˈɑləɹz", "tˈɛn", "əklˈɑk", "fˈAs"):
        assert word in first, first


async def test_silence_instead_of_speech_is_a_failure(worker):
    worker.log.permits.release(1)
    worker.network.amplitude = 1e-5
    assert (await refusal(worker.stub.Speak(ask("Hello.", "flac")))).code == "internal"


async def test_transcription_and_speech_alternate_step_by_step(
    worker,
):
    transcript = asyncio.ensure_future(worker.stub.Transcribe(recording()))
    await until(lambda: worker.log.begun == ["transcribe"])
    speech = asyncio.ensure_future(read(worker.stub.Speak(ask())))
    await until(lambda: worker.model_thread._inbox.qsize() == 1)
    for done in range(1, 6):
        worker.log.permits.release(1)
        await until(lambda: len(worker.log.begun) > done)  # noqa: B023
        if worker.log.begun[-1] == "transcribe" and len(worker.network.calls) < 3:
            # The next sentence is queued while the window is transcribed.
            await until(lambda: worker.model_thread._inbox.qsize() == 1)
    worker.log.permits.release(100)
    await asyncio.gather(transcript, speech)
    assert worker.log.begun == ["transcribe", "synthesize"] * 3


async def test_the_next_piece_of_a_text_is_served_after_pieces_that_wait():
    first, later = ask(arrival_ns=1), ask(arrival_ns=2)
    began, waiting, next_one = (Utterance(r, "ə", "af_heart", None) for r in (first, later, first))
    assert began.rank(0) <= waiting.rank(0) <= next_one.rank(0)


async def test_a_high_class_is_served_before_the_other_kind(worker):
    transcript = asyncio.ensure_future(worker.stub.Transcribe(recording(priority=HIGH)))
    await until(lambda: worker.log.begun == ["transcribe"])
    speech = asyncio.ensure_future(read(worker.stub.Speak(ask("Hello there."))))
    await until(lambda: worker.model_thread._inbox.qsize() == 1)
    worker.log.permits.release(100)
    await asyncio.gather(transcript, speech)
    assert worker.log.begun == ["transcribe", "transcribe", "transcribe", "synthesize"]


async def test_recordings_and_texts_have_separate_limits(worker):
    held = [asyncio.ensure_future(worker.stub.Transcribe(recording())) for _ in range(2)]
    await until(lambda: sum(worker.model_thread.load()) == 2)
    assert (await refusal(worker.stub.Transcribe(recording()))).code == "server_busy"
    held += [asyncio.ensure_future(read(worker.stub.Speak(ask()))) for _ in range(2)]
    await until(lambda: sum(worker.model_thread.load()) == 4)
    assert (await refusal(worker.stub.Speak(ask()))).code == "server_busy"
    worker.log.permits.release(100)
    await asyncio.gather(*held)
    assert await read(worker.stub.Speak(ask()))


async def test_a_cancelled_call_frees_its_slot_and_ends_its_encoder(worker):
    worker.log.permits.release(1)
    call = worker.stub.Speak(ask(form="flac"))
    assert (await call.read()).data
    assert encoders()
    call.cancel()
    await until(lambda: not encoders())
    worker.log.permits.release(1)
    await until(lambda: sum(worker.model_thread.load()) == 0)
    worker.log.permits.release(100)
    # Another call is served. Of the cancelled one, the second piece may have begun, and no more.
    await read(worker.stub.Speak(ask("Hello there.")))
    assert len(worker.network.calls) in (2, 3)


async def test_a_call_past_its_deadline_fails(worker):
    assert (await refusal(worker.stub.Speak(ask(), timeout=0.3))).code == "timeout"
    worker.log.permits.release(1)
    await until(lambda: sum(worker.model_thread.load()) == 0)


@pytest.mark.parametrize("kind", ["stt", "tts"])
async def test_a_call_without_a_model_for_it_fails(kind):
    empty = AudioModels(worker_pb2.ModelCard(), None, None)
    name = {"stt": "transcriber", "tts": "synthesizer"}[kind]
    with pytest.raises(ServiceError, match=f"audio model kind not loaded: {kind}") as caught:
        getattr(empty, name)
    assert caught.value.code == "not_implemented"
