"""Images, video and audio for a text model: refused, and nothing is fetched."""

from __future__ import annotations

import asyncio

import pytest

from shared.pb import common_pb2 as common
from tests.contract.harness import CHAT, Harness

URL = "http://127.0.0.1:{port}/cat.png"


def say(*parts) -> dict:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "What?"}, *parts]}]}


def turn(*parts) -> list[dict]:
    return [{"role": "user", "content": [{"type": "input_text", "text": "What?"}, *parts]}]


IMAGE = {"type": "image_url", "image_url": {"url": URL}}
VIDEO = {"type": "video_url", "video_url": {"url": URL, "fps": 2.0}}
AUDIO = {"type": "input_audio", "input_audio": {"data": URL, "format": "wav"}}
SHOWN = {"type": "input_image", "image_url": URL, "detail": "auto"}
PICTURE = {"type": "image", "source": {"type": "url", "url": URL}}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": [PICTURE]}

# Path, body, kind of media.
ASKED = [
    (CHAT, say(IMAGE), "image"),
    (CHAT, say({"type": "image_url", "image_url": URL}), "image"),
    (CHAT, say({"type": "image_url", "image_url": "file:///etc/passwd"}), "image"),
    (CHAT, say(VIDEO), "video"),
    (CHAT, say(AUDIO), "audio"),
    (f"{CHAT}/input_tokens", say(IMAGE), "image"),
    ("/apply-template", say(AUDIO), "audio"),
    ("/v1/responses", {"model": "fake", "input": turn(SHOWN)}, "image"),
    ("/v1/responses", {"model": "fake", "input": turn(VIDEO)}, "video"),
    ("/v1/responses", {"model": "fake", "input": turn(AUDIO)}, "audio"),
    ("/v1/responses/input_tokens", {"model": "fake", "input": turn(SHOWN)}, "image"),
    ("/v1/messages", say(PICTURE) | {"max_tokens": 9, "model": "fake"}, "image"),
    ("/v1/messages", say(RESULT) | {"max_tokens": 9, "model": "fake"}, "image"),
    ("/v1/messages/count_tokens", say(PICTURE) | {"model": "fake"}, "image"),
]


@pytest.fixture
async def target():
    """A server that records requests for images."""
    visits = []

    async def note(reader, writer):
        visits.append(await reader.readline())
        writer.close()

    server = await asyncio.start_server(note, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1], visits
    server.close()


def put_port(value, port: int):
    if isinstance(value, dict):
        return {key: put_port(item, port) for key, item in value.items()}
    if isinstance(value, list):
        return [put_port(item, port) for item in value]
    return value.replace("{port}", str(port)) if isinstance(value, str) else value


@pytest.mark.parametrize(("path", "body", "kind"), ASKED)
async def test_unsupported_media_is_refused_before_it_is_fetched(
    harness: Harness, target, path, body, kind
):
    port, visits = target
    await harness.start()
    for stream in (False, True):
        asked = put_port(body, port) | {"stream": stream}
        async with harness.session.post(path, json=asked) as reply:
            assert reply.status == 501
            error = (await reply.json())["error"]
        assert error["type"] == "not_supported_error"
        assert error["message"].startswith(
            f"{kind} input is not supported - hint: the loaded checkpoint 'fake' has no {kind} "
            "tower; "
        )
    assert visits == []
    assert harness.worker.submitted == []


@pytest.mark.parametrize("modalities", [[], [common.Media.KIND_VIDEO]])
async def test_video_together_with_audio_is_a_bad_request(harness: Harness, modalities):
    harness.add_worker().card.modalities.extend(modalities)
    await harness.start()
    async with harness.session.post(CHAT, json=say(VIDEO, AUDIO)) as reply:
        assert reply.status == 400
        error = (await reply.json())["error"]
    assert error["message"] == "Combined video and audio inputs are not supported"
