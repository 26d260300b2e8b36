"""Speech through gateway and audio worker: bodies, streamed files, events, losses, voices."""

from __future__ import annotations

import asyncio
import base64
import json

import aiohttp
import pytest

from shared.pb import common_pb2 as common
from shared.pb import worker_pb2
from tests.contract.audio_harness import AudioHarness, open_audio_harness
from tests.wait import until

SPEECH, VOICES = "/v1/audio/speech", "/v1/audio/voices"
TYPES = {
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "flac": "audio/flac",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "pcm": "audio/pcm",
}


class Booth(AudioHarness):
    """Sends JSON."""

    def send(self, text="Hello you there", path=SPEECH, headers=None, **fields):
        body = {"model": "tts-1", "input": text, **fields}
        return self.harness.session.post(path, json=body, headers=headers)

    async def say(self, *args, **fields):
        """Return status, headers and body."""
        async with self.send(*args, **fields) as reply:
            return reply.status, reply.headers, await reply.read()

    async def fail(self, *args, **fields):
        """Return status, type and param of an error."""
        status, headers, body = await self.say(*args, **fields)
        assert headers["Content-Type"] == "application/json"
        error = json.loads(body)["error"]
        return status, error["type"], error.get("param")


@pytest.fixture
async def make_booth(harness):
    async with open_audio_harness(harness, Booth) as make:
        yield make


async def test_both_paths_serve_every_format(make_booth):
    booth = await make_booth()
    for path in (SPEECH, "/audio/speech"):
        for form, content_type in TYPES.items():
            status, headers, body = await booth.say(
                path=path, headers={"X-Priority": "high"}, response_format=form, speed=2
            )
            assert (status, headers["Content-Type"]) == (200, content_type)
            assert headers["Content-Disposition"] == f"attachment; filename=speech.{form}"
            assert body == b"Hello you there"
            seen = booth.worker.seen[-1]
            assert (seen.format, seen.speed) == (form, 2)
            assert seen.priority == common.PRIORITY_HIGH


async def test_the_defaults_are_the_models_voice_and_a_complete_wav_file(make_booth):
    booth = await make_booth()
    async with booth.harness.session.post(SPEECH, json={"model": "x", "input": "Hi."}) as reply:
        assert reply.content_type == "audio/wav"
    seen = booth.worker.seen[-1]
    assert (seen.text, seen.voice, seen.format, seen.speed, seen.whole) == (
        "Hi.",
        "",
        "wav",
        1,
        True,
    )


async def test_a_setting_names_the_format_of_a_body_without_one(make_booth):
    booth = await make_booth({"speech_format": "mp3"})
    for fields, content_type in (({}, "audio/mpeg"), ({"response_format": "pcm"}, "audio/pcm")):
        _, headers, _ = await booth.say(instructions="Whisper.", **fields)
        assert headers["Content-Type"] == content_type


@pytest.mark.parametrize(
    ("fields", "whole"),
    [
        ({}, True),
        ({"response_format": "mp3"}, False),
        ({"stream_format": "audio"}, False),
        ({"text": "word " * 1000}, False),
    ],
)
async def test_a_short_wav_file_is_sent_complete_unless_streamed(make_booth, fields, whole):
    booth = await make_booth()
    assert (await booth.say(**fields))[0] == 200
    assert booth.worker.seen[-1].whole is whole


@pytest.mark.parametrize(
    ("given", "voice"),
    [("alloy", "alloy"), ({"id": "am_adam"}, "am_adam"), ("../../etc", "../../etc"), (None, "")],
)
async def test_any_voice_is_forwarded(make_booth, given, voice):
    booth = await make_booth()
    assert (await booth.say(voice=given))[0] == 200
    assert booth.worker.seen[-1].voice == voice


@pytest.mark.parametrize("speed", [0, -1, None])
async def test_an_invalid_speed_is_one(make_booth, speed):
    booth = await make_booth()
    assert (await booth.say(speed=speed))[0] == 200
    assert booth.worker.seen[-1].speed == 1


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": ""}, "input"),
        ({"input": " \n"}, "input"),
        ({"input": 5}, "input"),
        ({"input": "x" * 100_001}, "input"),
        ({"model": None}, "model"),
        ({"response_format": "ogg"}, "response_format"),
        ({"stream_format": "json"}, "stream_format"),
        ({"speed": "fast"}, "speed"),
        ({"speed": 4.5}, "speed"),
        ({"speed": 0.1}, "speed"),
        ({"voice": 3}, "voice"),
        ({"voice": {"name": "x"}}, "voice.id"),
    ],
)
async def test_an_invalid_field_is_named(make_booth, fields, param):
    booth = await make_booth()
    assert await booth.fail(**fields) == (400, "invalid_request_error", param)
    assert not booth.worker.seen


async def test_audio_is_sent_as_it_arrives(make_booth):
    booth = await make_booth()
    async with booth.send("late [hold]", response_format="mp3") as reply:
        assert reply.status == 200
        assert await reply.content.readany() == b"late "
        booth.worker.release.set()
        assert await reply.content.read() == b"[hold]"


async def test_events_contain_audio_and_end_with_done(make_booth):
    booth = await make_booth()
    status, headers, body = await booth.say(stream_format="sse", response_format="pcm")
    assert (status, headers["Content-Type"]) == (200, "text/event-stream")
    events = [json.loads(line.removeprefix("data: ")) for line in body.decode().split("\n\n")[:-1]]
    assert [event["type"] for event in events] == ["speech.audio.delta"] * 2 + ["speech.audio.done"]
    assert b"".join(base64.b64decode(event["audio"]) for event in events[:-1]) == b"Hello you there"
    assert set(events[-1]["usage"]) == {"input_tokens", "output_tokens", "total_tokens"}


@pytest.mark.parametrize("form", ["audio", "sse"])
async def test_a_failure_before_the_start_is_an_error_response(make_booth, form):
    booth = await make_booth()
    failed = await booth.fail("[fail=invalid_request]", stream_format=form)
    assert failed == (400, "invalid_request_error", None)


async def test_a_later_failure_aborts_the_connection(make_booth):
    booth = await make_booth()
    with pytest.raises(aiohttp.ClientPayloadError):
        await booth.say("[late=internal]")
    _, _, body = await booth.say("[late=internal]", stream_format="sse")
    delta, error = [json.loads(line[6:]) for line in body.decode().split("\n\n")[:-1]]
    assert delta["type"] == "speech.audio.delta"
    assert error["error"]["message"] == "as the script says"
    assert (await booth.say())[0] == 200


async def test_a_call_is_repeated_after_a_lost_worker(make_booth):
    booth = await make_booth()
    asked = asyncio.create_task(booth.say("[die]"))
    await until(lambda: not booth.worker.listening)
    await booth.worker.start()
    assert (await asked)[2] == b"[die]"
    assert len(booth.worker.seen) == 2


async def test_a_worker_lost_during_a_file_aborts_the_connection(make_booth):
    booth = await make_booth()
    with pytest.raises(aiohttp.ClientPayloadError):
        await booth.say("late [die]")
    assert len(booth.worker.seen) == 1


async def test_too_many_and_too_slow_calls_are_refused(make_booth):
    booth = await make_booth(queue_limit=1, call_timeout_ms=500)
    held = asyncio.create_task(booth.fail("[hold]"))
    await until(lambda: bool(booth.worker.seen))
    assert (await booth.fail())[:2] == (503, "server_busy")
    assert (await held)[:2] == (504, "server_timeout")
    await until(lambda: booth.worker.cancelled == 1)


async def test_the_time_limit_is_per_piece(make_booth):
    booth = await make_booth(call_timeout_ms=500)
    assert (await booth.say())[0] == 200
    assert booth.worker.times_left_s == [None]
    with pytest.raises(aiohttp.ClientPayloadError):
        await booth.say("late [hold]")
    await until(lambda: booth.worker.cancelled == 1)


async def test_a_disconnect_cancels_the_call(make_booth):
    booth = await make_booth()
    async with booth.send("late [hold]"):
        pass
    await until(lambda: booth.worker.cancelled == 1)


async def test_voices_are_listed(make_booth):
    booth = await make_booth()
    for path in (VOICES, "/audio/voices", f"{VOICES}?model=ear"):
        status, report = await booth.harness.get(path)
        assert status == 200
        assert report == {
            "voices": [
                {"id": "af_heart", "name": "af_heart"},
                {"id": "am_adam", "name": "am_adam"},
            ]
        }


async def test_workers_are_chosen_by_capability(make_booth):
    booth = await make_booth(audio=worker_pb2.AudioCard(transcribes=True))
    assert (await booth.fail())[:2] == (501, "not_implemented")
    assert (await booth.fail(model="ear"))[:2] == (501, "not_implemented")
    assert (await booth.fail(response_format="ogg"))[0] == 501
    assert (await booth.fail(text=5))[0] == 400
    status, error = await booth.harness.get(VOICES)
    assert (status, error["error"]["message"]) == (501, "audio model kind not loaded: tts")
    models = (await booth.harness.get("/v1/models"))[1]["data"]
    assert [m["capabilities"] for m in models if m["id"] == "fake-audio"] == [["transcription"]]


async def test_the_reason_why_nothing_is_spoken_is_named(make_booth):
    reason = "espeak-ng is not installed; install it"
    booth = await make_booth(
        audio=worker_pb2.AudioCard(transcribes=True), unavailable={"speech": reason}
    )
    status, error = await booth.harness.get(VOICES)
    assert status == 501
    assert error["error"]["message"] == f"audio model kind not loaded: tts. {reason}"


async def test_a_speech_only_worker_does_not_transcribe(make_booth):
    booth = await make_booth(audio=worker_pb2.AudioCard(speaks=True))
    for task, field, status in [
        ("transcriptions", "", 501),
        ("transcriptions", "xml", 501),
        ("translations", "", 501),
        ("translations", "xml", 400),
    ]:
        form = aiohttp.FormData({"response_format": field}, default_to_multipart=True)
        form.add_field("file", b"Hello you there", filename="speech.wav")
        async with booth.harness.session.post(f"/v1/audio/{task}", data=form) as reply:
            assert reply.status == status
            message = (await reply.json())["error"]["message"]
        assert status == 400 or message == "audio model kind not loaded: stt"
    assert (await booth.say())[0] == 200
