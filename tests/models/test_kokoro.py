"""Kokoro through the whole server: what Whisper, on the same server, hears of what it says."""

from __future__ import annotations

import subprocess

import numpy as np

from tests.example import read_pages, run_command
from tests.models.hearing import words_of
from tests.server import ROOT

SOUNDS = ROOT / "tests" / "data" / "audio"
SENTENCES = (
    "The quick brown fox jumps over the lazy dog. She was happy to see her old friend again."
)
FORMATS = {
    "wav": ("audio/wav", b"RIFF"),
    "mp3": ("audio/mpeg", b"\xff\xf3"),
    "flac": ("audio/flac", b"fLaC"),
    "opus": ("audio/ogg", b"OggS"),
    "aac": ("audio/aac", b"\xff\xf1"),
    "pcm": ("audio/pcm", b""),
}
MODEL = {"model": "tts-1"}


def decode(data: bytes, form: str):
    """Return the samples that ffmpeg finds in a file."""
    raw = ["-f", "s16le", "-ar", "24000", "-ac", "1"]
    command = ["ffmpeg", "-v", "error", *(raw if form == "pcm" else []), "-i", "pipe:0", *raw]
    run = subprocess.run([*command, "pipe:1"], input=data, capture_output=True, check=True)
    return np.frombuffer(run.stdout, "<i2") / 32768


async def test_what_is_said_is_heard_word_for_word(studio_client):
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


async def test_every_format_holds_the_same_sound(studio_client):
    lengths_s, levels = {}, {}
    for form, (content_type, magic) in FORMATS.items():
        reply = await studio_client.audio.speech.create(
            input="No.", voice="af_heart", response_format=form, speed=4, **MODEL
        )
        assert reply.response.headers["content-type"] == content_type
        assert reply.content.startswith(magic)
        samples = decode(reply.content, form)
        lengths_s[form], levels[form] = len(samples) / 24_000, np.sqrt(np.mean(samples**2))
    assert lengths_s["wav"] == lengths_s["pcm"] == lengths_s["flac"] > 0.2
    # Coders of whole frames add up to two of them.
    assert all(0 <= length_s - lengths_s["wav"] < 0.12 for length_s in lengths_s.values())
    assert all(0.8 < level / levels["wav"] < 1.2 for level in levels.values())
    slower = await studio_client.audio.speech.create(
        input="No.", voice="af_heart", response_format="pcm", speed=2, **MODEL
    )
    assert len(slower.content) / 48_000 > 1.3 * lengths_s["pcm"]


async def test_the_voices_are_those_that_can_be_spoken_with(studio):
    _, report = studio.ask("/v1/audio/voices")
    names = [voice["id"] for voice in report["voices"]]
    assert names[0] == "af_heart"
    assert {name[0] for name in names} == set("abefhip")
    _, models = studio.ask("/v1/models")
    assert models["data"][0]["capabilities"] == ["transcription", "speech"]


def test_the_examples_of_the_page_are_answered(studio, tmp_path):
    source, wanted = str(SOUNDS / "bicycle.flac"), str(tmp_path / "speech.m4a")
    subprocess.run(["ffmpeg", "-v", "error", "-i", source, wanted], check=True)
    for example in read_pages("audio"):
        outcome = run_command(f"cd {tmp_path}\n{example.text}", studio.url)
        assert outcome.status == 200, outcome.body
    assert (tmp_path / "speech.wav").read_bytes().startswith(b"RIFF")
