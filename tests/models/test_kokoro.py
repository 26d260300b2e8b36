"""Kokoro through the whole server: Whisper, on the same server, transcribes its speech."""

from __future__ import annotations

import subprocess

from tests.example import read_pages, run_command
from tests.models.hearing import words_of
from tests.server import ROOT

SOUNDS = ROOT / "tests" / "data" / "audio"
SENTENCES = (
    "The quick brown fox jumps over the lazy dog. She was happy to see her old friend again."
)
MODEL = {"model": "tts-1"}
# As written, and as Whisper may write what it hears.
PHRASES = {
    "It is Jones vs. Smith": ("versus", "vs"),
    "Here is Henry VIII": ("henry the eighth", "henry the 8th", "henry viii"),
    "I run 5km": ("5 kilometers", "five kilometers", "5km", "5 km"),
    "Buy fruit, e.g. apples": ("for example",),
}
WAVE_HEADER_BYTES = 44


async def test_speech_is_transcribed_word_for_word(studio_client):
    speech = studio_client.audio.speech.with_streaming_response
    asked = speech.create(input=SENTENCES, voice="heart", response_format="mp3", **MODEL)
    async with asked as reply:
        assert reply.headers["content-type"] == "audio/mpeg"
        assert reply.headers["transfer-encoding"] == "chunked"
        data = b"".join([chunk async for chunk in reply.iter_bytes()])
    heard = await studio_client.audio.transcriptions.create(
        file=("speech.mp3", data), model="whisper-1"
    )
    assert words_of(heard.text) == words_of(SENTENCES)


async def test_what_is_written_out_is_heard(studio_client):
    speech = await studio_client.audio.speech.create(
        input=" ".join(f"{written}." for written in PHRASES), voice="heart", speed=1.2, **MODEL
    )
    answer = await studio_client.audio.transcriptions.create(
        file=("speech.wav", speech.content), model="whisper-1"
    )
    heard = answer.text.lower().replace("-", " ").replace(",", "")
    missed = [
        written for written, forms in PHRASES.items() if not any(form in heard for form in forms)
    ]
    assert not missed, answer.text


async def test_a_slower_voice_takes_longer_and_wav_is_pcm_with_a_header(
    studio_client,
):
    said = {}
    for form, speed in (("wav", 4), ("pcm", 4), ("pcm", 2)):
        reply = await studio_client.audio.speech.create(
            input="No.", voice="af_heart", response_format=form, speed=speed, **MODEL
        )
        assert reply.response.headers["content-type"] == f"audio/{form}"
        said[form, speed] = reply.content
    assert said["wav", 4].startswith(b"RIFF")
    assert said["wav", 4][WAVE_HEADER_BYTES:] == said["pcm", 4]
    assert len(said["pcm", 2]) > 1.3 * len(said["pcm", 4]) > 0


async def test_only_voices_that_can_be_synthesized_are_listed(studio):
    _, report = studio.ask("/v1/audio/voices")
    names = [voice["id"] for voice in report["voices"]]
    assert names[0] == "af_heart"
    assert {name[0] for name in names} == set("abefhip")
    _, models = studio.ask("/v1/models")
    assert models["data"][0]["capabilities"] == ["transcription", "speech"]


def test_the_examples_of_the_audio_page_succeed(studio, tmp_path):
    source, wanted = str(SOUNDS / "bicycle.flac"), str(tmp_path / "speech.m4a")
    subprocess.run(["ffmpeg", "-v", "error", "-i", source, wanted], check=True)
    for example in read_pages("audio"):
        outcome = run_command(f"cd {tmp_path}\n{example.text}", studio.url)
        assert outcome.status == 200, outcome.body
    assert (tmp_path / "speech.wav").read_bytes().startswith(b"RIFF")
