"""Transcriptions through gateway and audio worker: forms, streams, losses, model names."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest

from shared.pb import common_pb2 as common
from tests.contract.audio_harness import AudioHarness, open_audio_harness
from tests.contract.openai_client import connect
from tests.wait import until

TRANSCRIBE, TRANSLATE = "/v1/audio/transcriptions", "/v1/audio/translations"


class Studio(AudioHarness):
    """Sends forms."""

    async def send(self, path=TRANSCRIBE, headers=None, **fields):
        """Return status, headers and body of the response to a form."""
        form = aiohttp.FormData(fields, default_to_multipart=True)
        form.add_field("file", b"Hello you there", filename="speech.wav")
        async with self.harness.session.post(path, data=form, headers=headers) as reply:
            return reply.status, reply.headers, await reply.text()

    async def fail(self, **fields):
        """Return status, type and message of an error."""
        status, _, body = await self.send(**fields)
        error = json.loads(body)["error"]
        return status, error["type"], error["message"]

    async def stream(self, **fields):
        """Return the events of a stream."""
        status, headers, body = await self.send(stream="true", **fields)
        assert (status, headers["Content-Type"]) == (200, "text/event-stream"), body
        lines = [line.removeprefix("data: ") for line in body.split("\n\n") if line[:1] == "d"]
        return [line if line == "[DONE]" else json.loads(line) for line in lines]


@pytest.fixture
async def make_studio(harness):
    async with open_audio_harness(harness, Studio) as make:
        yield make


async def test_a_recording_is_transcribed_on_both_paths(make_studio):
    studio = await make_studio()
    for path in (TRANSCRIBE, "/audio/transcriptions"):
        status, headers, body = await studio.send(path, {"X-Priority": "low"}, model="whisper-1")
        assert (status, headers["Content-Type"]) == (200, "application/json")
        assert json.loads(body)["text"] == "Hello you there"
    assert studio.worker.seen[0].priority == common.PRIORITY_LOW
    assert not studio.worker.seen[0].translate


async def test_a_translation_is_english(make_studio):
    studio = await make_studio()
    for path in (TRANSLATE, "/audio/translations"):
        status, _, body = await studio.send(path)
        assert (status, json.loads(body)) == (200, {"text": "Hello you there"})
        assert studio.worker.seen[-1].translate
    status, _, body = await studio.send(TRANSLATE, stream="true")
    assert (status, json.loads(body)) == (200, {"text": "Hello you there"})


@pytest.mark.parametrize(
    ("style", "content_type"),
    [
        ("text", "text/plain; charset=utf-8"),
        ("srt", "text/plain; charset=utf-8"),
        ("vtt", "text/vtt; charset=utf-8"),
        ("verbose_json", "application/json"),
    ],
)
async def test_every_form_has_its_content_type(make_studio, style, content_type):
    studio = await make_studio()
    status, headers, _ = await studio.send(response_format=style)
    assert (status, headers["Content-Type"]) == (200, content_type)


async def test_a_stream_sends_text_in_pieces(make_studio):
    studio = await make_studio()
    *deltas, done, end = await studio.stream()
    assert [event["type"] for event in deltas] == ["transcript.text.delta"] * 2
    assert [event["delta"] for event in deltas] == ["Hello", " you there"]
    assert (done["type"], done["text"]) == ("transcript.text.done", "Hello you there")
    assert end == "[DONE]"


async def test_a_stream_that_fails_before_its_start_is_an_error_response(make_studio):
    studio = await make_studio()
    failed = await studio.fail(stream="true", prompt="[fail=invalid_request]")
    assert failed == (400, "invalid_request_error", "as the script says")


async def test_a_stream_that_fails_later_reports_it(make_studio):
    studio = await make_studio()
    delta, error = await studio.stream(prompt="[late=engine_failed]")
    assert delta["delta"] == "Hello"
    assert error["error"]["message"] == "as the script says"
    assert len(studio.worker.seen) == 1


@pytest.mark.parametrize("streams", [False, True])
async def test_a_call_is_repeated_after_a_lost_worker(make_studio, streams):
    studio = await make_studio()
    send = studio.stream if streams else studio.send
    asked = asyncio.create_task(send(prompt="[die]"))
    await until(lambda: not studio.worker.listening)
    await studio.worker.start()
    answer = await asked
    assert "Hello you there" in str(answer)
    assert len(studio.worker.seen) == 2


async def test_a_stream_over_the_limit_is_refused(make_studio):
    studio = await make_studio(queue_limit=1)
    held = asyncio.create_task(studio.stream(prompt="[hold]"))
    await until(lambda: bool(studio.worker.seen))
    for streams in ("true", "false"):
        status, kind, _ = await studio.fail(stream=streams)
        assert (status, kind) == (503, "server_busy")
    studio.worker.release.set()
    assert (await held)[-1] == "[DONE]"


async def test_a_stream_that_takes_too_long_times_out(make_studio):
    studio = await make_studio(call_timeout_ms=200)
    status, kind, _ = await studio.fail(stream="true", prompt="[hold]")
    assert (status, kind) == (504, "server_timeout")
    await until(lambda: studio.worker.cancelled == 1)


async def test_a_disconnect_ends_the_stream(make_studio):
    studio = await make_studio()
    asked = asyncio.create_task(studio.stream(prompt="[hold]"))
    await until(lambda: bool(studio.worker.seen))
    asked.cancel()
    await until(lambda: studio.worker.cancelled == 1)


async def test_any_model_name_is_accepted_unless_strict(make_studio):
    studio = await make_studio({"strict_model": True})
    assert (await studio.send(model="ear"))[0] == 200
    assert (await studio.send(model="fake-audio"))[0] == 200
    assert (await studio.send())[0] == 200
    assert (await studio.fail(model="whisper-9"))[0] == 404


@pytest.mark.parametrize(("lines", "status"), [(9, 200), (20_000, 400)])
async def test_text_before_a_form_is_skipped_up_to_a_limit(make_studio, lines, status):
    studio = await make_studio()
    part = b'--B\r\nContent-Disposition: form-data; name="file"\r\n\r\nHello\r\n--B--\r\n'
    headers = {"Content-Type": "multipart/form-data; boundary=B"}
    post = studio.harness.session.post
    async with post(TRANSCRIBE, data=b"\r\n" * lines + part, headers=headers) as reply:
        assert reply.status == status


async def test_fields_are_checked_before_the_call(make_studio):
    studio = await make_studio()
    assert (await studio.fail(response_format="xml"))[0] == 400
    assert not studio.worker.seen


@pytest.mark.parametrize(
    ("style", "said"),
    [
        ("json", "Hello you there"),
        ("text", "Hello you there\n"),
        ("srt", "1\n00:00:00,000 --> 00:00:01,000\nHello\n"),
        ("vtt", "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nHello\n"),
        ("verbose_json", "Hello you there"),
    ],
)
# Ignore the client's own deprecation warnings.
@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
async def test_the_official_client_reads_every_form(make_studio, style, said):
    studio = await make_studio()
    async with connect(studio.harness) as client:
        for task in (client.audio.transcriptions, client.audio.translations):
            answer = await task.create(
                file=("a.wav", b"Hello you there"), model="whisper-1", response_format=style
            )
            assert (answer if isinstance(answer, str) else answer.text).startswith(said)
