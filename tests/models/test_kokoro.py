"""Kokoro through the whole server: Whisper, on the same server, transcribes its speech."""

from __future__ import annotations

import subprocess

import pytest

from tests.example import read_pages, run_command
from tests.models.hearing import words_of
from tests.server import ROOT
from workers.audio.speech.normaliser.normaliser import load_normaliser

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
# More kinds, in texts of one window of Whisper's.
KINDS = (
    {
        "He paid $5.3 million": ("5.3 million dollars", "$5.3 million"),
        "We met at 10:00": ("10 o'clock",),
        "It was the 1990s": ("the 1990s",),
        "Jones vs. Smith": ("versus", "vs"),
        "King Henry VIII": ("henry the eighth", "henry the 8th", "henry viii"),
        "I ran 5km": ("5 kilometers", "five kilometers"),
        "Some fruit, e.g. apples": ("for example",),
        "It is 25% off": ("25%", "25 percent"),
        "He came in 3rd": ("in third", "in 3rd"),
        "She was born in 1984": ("in 1984",),
    },
    {
        "It was on July 4, 1776": ("july 4 1776", "july 4th 1776", "july fourth 1776"),
        "Take 1/2 of it": ("one half", "1 half", "1/2"),
        "Read pages 10-20": ("10 to 20",),
        "Dr. Brown is here": ("dr. brown", "doctor brown"),
        "We use version 2.5": ("version 2.5",),
        "I know 7 × 8": ("7 times 8", "seven times eight", "7x8"),
        "It is **very** good": ("it is very good",),
        "It costs €20": ("20 euros", "€20"),
        "It is 30°C outside": ("30 degrees celsius",),
        "We left at 5:30 p.m.": ("5.30 pm", "5:30 pm", "5 30 pm", "5:30 p.m"),
    },
)
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
        input=_join(PHRASES), voice="heart", speed=1.2, **MODEL
    )
    assert not await _find_missed(studio_client, speech.content, PHRASES)


@pytest.mark.parametrize("phrases", KINDS)
async def test_every_kind_is_heard_as_espeak_ng_speaks_it(studio_client, phrases):
    """By espeak-ng's own voice: Kokoro takes minutes for as many phrases."""
    assert not await _find_missed(studio_client, _speak(_join(phrases)), phrases)


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


def _join(phrases):
    return " ".join(f"{written}." for written in phrases)


def _speak(text):
    """Return a text written out and spoken by espeak-ng, as WAV."""
    normaliser = load_normaliser("en-us")
    words = "".join(map(normaliser.write_out, normaliser.prepare(text)))
    command = ["espeak-ng", "-v", "en-us", "-s", "150", "--stdin", "--stdout"]
    return subprocess.run(command, input=words.encode(), capture_output=True, check=True).stdout


async def _find_missed(client, speech, phrases):
    """Return the phrases that Whisper does not hear, and after them what it hears."""
    answer = await client.audio.transcriptions.create(
        file=("speech.wav", speech), model="whisper-1"
    )
    heard = answer.text.lower().replace("-", " ").replace(",", "")
    missed = [
        written for written, forms in phrases.items() if not any(form in heard for form in forms)
    ]
    return [*missed, answer.text] if missed else []
