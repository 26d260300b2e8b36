"""Early refusals: too many requests, invalid keys, unknown paths, invalid bodies."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import zlib

import brotli
import pytest

from tests.contract.harness import CHAT, Harness, body
from tests.wait import until

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


async def test_every_request_of_an_overload_gets_a_response(harness: Harness):
    harness.add_worker(slots=4, step_s=0.02)
    await harness.start(max_queue_depth=8)
    tasks = [asyncio.create_task(harness.post(f"{i} [tokens=30]")) for i in range(12)]
    await until(lambda: harness.context.registry.default().admission.depth == 8)
    refused = await asyncio.gather(*(harness.post("more") for _ in range(80)))
    for status, reply in refused:
        assert status == 503
        assert reply["error"] == {
            "message": "All slots are busy. Please try again later.",
            "type": "server_busy",
            "code": None,
            "param": None,
        }
    assert [status for status, _ in await asyncio.gather(*tasks)] == [200] * 12
    assert (await harness.post("after"))[0] == 200
    await harness.idle()


async def test_a_busy_server_sends_retry_after_also_for_streams(harness: Harness):
    harness.add_worker(slots=1)
    await harness.start(max_queue_depth=1)
    busy = [asyncio.create_task(harness.text("x [tokens=2000]")) for _ in range(2)]
    await until(lambda: harness.context.registry.default().admission.depth == 1)
    async with harness.session.post(CHAT, data=body("x", stream=True)) as reply:
        assert reply.status == 503
        assert reply.headers["Retry-After"] == "1"
        assert reply.headers["Content-Type"] == "application/json"
    for task in busy:
        task.cancel()


@pytest.mark.parametrize(
    ("headers", "status", "kind"),
    [
        ({}, 401, "missing_api_key"),
        ({"Authorization": "Bearer wrong"}, 401, "invalid_api_key"),
        ({"Authorization": "Bearer sesame"}, 200, None),
        ({"Authorization": "sesame"}, 200, None),
        ({"X-Api-Key": "sesame"}, 200, None),
    ],
)
async def test_keys_are_needed_except_for_health(harness: Harness, headers, status, kind):
    await harness.start(api_key=("sesame",))
    assert (await harness.get("/v1/models", **headers))[0] == status
    got, reply = await harness.post("x", headers=headers)
    assert got == status
    if kind:
        assert reply["error"]["type"] == kind
        # Without a key, an unknown path is not revealed.
        assert (await harness.get("/nowhere", **headers))[0] == 401
    for path in ("/", "/health", "/v1/health"):
        assert (await harness.get(path))[0] == 200
    assert (await harness.get("/v1/models?api_key=sesame"))[0] == 401


async def test_unknown_paths_and_methods_have_the_same_form(harness: Harness):
    await harness.start()
    status, reply = await harness.get("/v1/nothing")
    assert (status, reply["error"]["type"]) == (404, "not_found")
    async with harness.session.get(CHAT) as response:
        assert response.status == 405
        assert response.headers["Allow"] == "POST"
        assert (await response.json())["error"]["type"] == "invalid_request_error"


every_coding = pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("br", brotli.compress),
        ("zstd", zstd.compress),
    ],
    ids=["gzip", "x-gzip", "deflate", "br", "zstd"],
)


async def post_raw(harness: Harness, data, **headers):
    async with harness.session.post(CHAT, data=data, headers=headers) as reply:
        return reply.status, await reply.json()


TOO_LARGE = {
    "message": "Request body too large.",
    "type": "invalid_request_error",
    "code": None,
    "param": None,
}


async def test_a_body_over_the_limit_is_refused_by_its_declared_size(harness: Harness):
    await harness.start(max_body_bytes=10_000)
    status, reply = await post_raw(harness, b"x" * 10_001)
    assert (status, reply["error"]) == (413, TOO_LARGE)
    assert (await post_raw(harness, body("x" * 9_000)))[0] == 200


async def test_a_body_over_the_limit_is_refused_while_it_is_read(harness: Harness):
    await harness.start(max_body_bytes=10_000)
    sent = 0

    async def chunks():
        nonlocal sent
        for _ in range(1000):
            sent += 5_000
            yield b"x" * 5_000
            await asyncio.sleep(0.001)

    status, reply = await post_raw(harness, chunks())
    assert (status, reply["error"]) == (413, TOO_LARGE)
    assert sent < 1_000_000


@pytest.mark.parametrize(
    ("path", "kind", "begun"),
    [
        (CHAT, "application/json", b'{"messages":'),
        ("/v1/audio/transcriptions", "multipart/form-data; boundary=x", b"--x\r\nContent-"),
    ],
)
async def test_an_incomplete_body_is_refused(harness: Harness, path, kind, begun):
    await harness.start(body_timeout_s=0.1)
    host, port = harness.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: 99\r\n\r\n"
    writer.write(head.encode() + begun)
    answer = await asyncio.wait_for(reader.readuntil(b"}}"), 30)
    writer.close()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"The body is incomplete: no data arrived for 0.1 s." in answer


@every_coding
async def test_a_compressed_body_is_limited_by_its_decompressed_size(harness, name, pack):
    await harness.start(max_body_bytes=10_000)
    coding = {"Content-Encoding": name}
    packed = pack(b" " * 1_000_000)
    assert len(packed) < 10_000
    assert (await post_raw(harness, packed, **coding))[0] == 413
    assert (await post_raw(harness, pack(body("hello")), **coding))[0] == 200


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b'{"messages": [{"role": "user", "content": "\xff"}]}',
        b'{"messages": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'{"messages": "x"}',
        b"{}",
    ],
)
async def test_invalid_bodies_are_refused_without_the_worker(harness: Harness, data: bytes):
    await harness.start()
    status, reply = await post_raw(harness, data)
    assert (status, reply["error"]["type"]) == (400, "invalid_request_error")
    assert harness.worker.submitted == []


async def test_any_content_type_is_parsed_as_json(harness: Harness):
    await harness.start()
    for kind in ("application/x-www-form-urlencoded", "text/plain"):
        assert (await post_raw(harness, body("x"), **{"Content-Type": kind}))[0] == 200


@every_coding
async def test_a_body_that_can_not_be_decompressed_is_a_400(harness, name, pack):
    await harness.start()
    for data in (b"not compressed at all", pack(body("hello"))[:-5]):
        status, reply = await post_raw(harness, data, **{"Content-Encoding": name})
        assert (status, reply["error"]["type"]) == (400, "invalid_request_error")


@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/responses", "/completion"])
async def test_another_content_coding_is_refused(harness: Harness, path):
    await harness.start()
    for name in ("compress", "gzip, zstd", "x-unknown"):
        async with harness.session.post(
            path, data=b"x", headers={"Content-Encoding": name}
        ) as reply:
            answer = await reply.json()
            assert (reply.status, answer["error"]["type"]) == (415, "invalid_request_error")
            assert reply.headers["Accept-Encoding"] == "gzip, deflate, br, zstd"


async def test_a_web_socket_for_responses_is_refused_at_once(harness: Harness):
    await harness.start()
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade"}
    for headers, status in ((upgrade, 426), ({}, 405)):
        async with harness.session.get("/v1/responses", headers=headers) as reply:
            assert reply.status == status
            assert (await reply.json())["error"]["type"] == "invalid_request_error"


async def test_unknown_fields_are_ignored(harness: Harness):
    await harness.start()
    answer = await harness.answer("x", store=True, something_new={"a": [1]}, metadata={})
    assert json.dumps(answer)
