"""Three minutes of speech, as on a GPU: windows are decoded together, in one batch.

The recording was spoken by espeak-ng; beside it lies the transcript of the bare library.
"""

from __future__ import annotations

from shared.pb import audio_pb2 as pb
from tests.models.hearing import errors, words_of
from tests.server import ROOT
from workers import runtime
from workers.audio.recognition.model import load_whisper
from workers.audio.recognition.transcription import Transcription
from workers.audio.sound import recording
from workers.audio.sound.samples import RATE_HZ

SOUNDS = ROOT / "tests" / "data" / "audio"


def read(name: str) -> str:
    return (SOUNDS / name).read_text("utf-8")


async def test_three_minutes_lose_no_sentence():
    whisper = load_whisper(ROOT / "models" / "whisper-tiny.en", 8, runtime.choose_device(1.0))
    samples = await recording.decode((SOUNDS / "minutes.ogg").read_bytes(), 600)
    assert len(samples) > 180 * RATE_HZ
    request = pb.TranscribeRequest()
    whisper.check(request)
    job = Transcription(request, samples, None)
    # As on a device that is fast enough for all of them.
    whisper.note_step(windows=8, took_s=0.1)
    steps = 0
    while not job.ended:
        whisper.step([job])
        steps += 1
    # Seven windows at once, then the rest of one of them.
    assert steps < 7
    segments = (await job.answer).segments
    expected, bare = words_of(read("minutes.said.txt")), words_of(read("minutes.txt"))
    heard = words_of("".join(segment.text for segment in segments))
    assert errors(heard, expected) <= errors(bare, expected)
    for sentence in read("minutes.said.txt").splitlines():
        words = words_of(sentence)
        # Most of its words, in order.
        assert any(
            errors(heard[at : at + len(words)], words) <= len(words) // 2
            for at in range(len(heard))
        ), sentence
