"""Routes without a worker: malformed bodies are a 400, all others a 501."""

from __future__ import annotations

import contextlib

import aiohttp
import pytest

from gateway.app import make_app
from gateway.http.auth import Keys
from gateway.server import GatewayStart, listen, make_context
from shared.fleet import WorkerEntry
from shared.settings import GatewaySettings
from tests.contract.harness import Harness

SPEECH = ("/v1/audio/speech", "/audio/speech")
FORMS = (
    "/v1/audio/transcriptions",
    "/audio/transcriptions",
    "/v1/audio/translations",
    "/audio/translations",
)
IMAGES = (
    "/v1/images/generations",
    "/images/generations",
    "/v1/images/edits",
    "/images/edits",
)
TEXT = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
    "/chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
    "/v1/completions": {"prompt": "hi"},
    "/completion": {"prompt": "hi"},
    "/completions": {"prompt": "hi"},
    "/infill": {"input_prefix": "a", "input_suffix": "b"},
    "/tokenize": {"content": "hi"},
    "/detokenize": {"tokens": [1]},
    "/apply-template": {"messages": [{"role": "user", "content": "hi"}]},
    "/v1/chat/completions/input_tokens": {"messages": [{"role": "user", "content": "hi"}]},
    "/v1/responses": {"model": "m", "input": "hi"},
    "/v1/responses/input_tokens": {"model": "m", "input": "hi"},
    "/v1/messages/count_tokens": {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
    "/v1/messages": {
        "max_tokens": 5,
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
    },
}


async def post(harness: Harness, path: str, **options):
    async with harness.session.post(path, **options) as reply:
        return reply.status, (await reply.json())["error"]


def make_form(**fields) -> aiohttp.FormData:
    form = aiohttp.FormData()
    for name, value in fields.items():
        form.add_field(name, value, filename="a.wav" if isinstance(value, bytes) else None)
    return form


async def test_speech(harness: Harness):
    await harness.start()
    for path in SPEECH:
        status, error = await post(harness, path, json={"model": "kokoro", "input": "Hello."})
        assert (status, error["type"]) == (501, "not_implemented")
        assert error["message"] == "audio model kind not loaded: tts"
        assert (await post(harness, path, data=b"{"))[0] == 400
        status, error = await post(harness, path, json={"model": "kokoro"})
        assert (status, error["param"]) == (400, "input")
        assert (await post(harness, path, json={"input": "x", "speed": "fast"}))[0] == 400


async def test_recordings(harness: Harness):
    await harness.start()
    for path in FORMS:
        status, error = await post(harness, path, data=make_form(model="whisper", file=b"RIFF"))
        assert (status, error["type"]) == (501, "not_implemented")
        assert error["message"] == "audio model kind not loaded: stt"
        status, error = await post(harness, path, data=make_form(model="whisper", note=b"x"))
        # As in the reference, a missing file is reported before or after a missing model.
        translates = path.endswith("translations")
        assert (status, error["param"]) == ((400, "file") if translates else (501, None))


@pytest.mark.parametrize(
    ("content_type", "data"),
    [
        ("application/json", b'{"file": "x"}'),
        ("multipart/mixed; boundary=a", b"--a\r\n\r\nx\r\n--a--\r\n"),
        ("multipart/form-data", b"--a--\r\n"),
        ("multipart/form-data; boundary=" + "a" * 71, b"x"),
        ("multipart/form-data; boundary=a", b""),
        ("multipart/form-data; boundary=a", b"nothing of the kind"),
        ("multipart/form-data; boundary=a", b"--a\r\nno colon\r\n\r\nx\r\n--a--\r\n"),
        ("multipart/form-data; boundary=a", b"--a\r\n\r\nno name\r\n--a--\r\n"),
        (
            "multipart/form-data; boundary=a",
            b"--a\r\nContent-Disposition: form-data; name=file\r\nContent-Length: -1\r\n\r\nx",
        ),
        (
            "multipart/form-data; boundary=a",
            b"--a\r\nContent-Disposition: form-data; name=file\r\n\r\nnever ends",
        ),
        (
            "multipart/form-data; boundary=a",
            b"--a\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b--\r\n--a--\r\n",
        ),
        (
            "multipart/form-data; boundary=a",
            b'--a\r\nContent-Disposition: form-data; name="x"\r\n\r\ny\r\n' * 40 + b"--a--\r\n",
        ),
    ],
)
async def test_a_malformed_form_is_refused(harness: Harness, content_type, data):
    await harness.start()
    status, error = await post(harness, FORMS[0], data=data, headers={"Content-Type": content_type})
    assert (status, error["type"]) == (400, "invalid_request_error")


@pytest.mark.parametrize("declared", [True, False])
async def test_an_upload_over_the_limit_is_refused_while_it_is_read(harness: Harness, declared):
    await harness.start()
    sent = 0

    async def pieces():
        nonlocal sent
        yield b"--a\r\nContent-Disposition: form-data; name=file; filename=a\r\n\r\n"
        for _ in range(90):
            sent += 1
            yield bytes(1024 * 1024)
        yield b"\r\n--a--\r\n"

    headers = {"Content-Type": "multipart/form-data; boundary=a"}
    if declared:
        headers["Content-Length"] = str(90 * 1024 * 1024)
    # A server that responds before it has read the body may reset the connection.
    try:
        status, _ = await post(harness, FORMS[0], data=pieces(), headers=headers)
        assert status == 413
    except aiohttp.ClientConnectionError:
        pass
    assert sent < 90
    assert (await harness.get("/health"))[0] == 200


async def test_images(harness: Harness):
    await harness.start()
    for path in IMAGES:
        status, error = await post(harness, path, json={"prompt": "a cat", "n": 1})
        assert (status, error["type"]) == (501, "not_implemented")
        assert "`--image-model`" in error["message"]
        assert (await post(harness, path, data=make_form(prompt="a cat")))[0] == 400
        for field, value in [
            ("prompt", None),
            ("response_format", "url"),
            ("output_format", "jpeg"),
            ("url", "file:///x"),
            ("path", "x"),
            ("output_path", "x"),
            ("output_dir", "x"),
        ]:
            status, error = await post(harness, path, json={"prompt": "a cat", field: value})
            assert (status, error["param"]) == (400, field)


async def test_realtime_is_not_served(harness: Harness):
    await harness.start()
    assert (await harness.get("/v1/realtime"))[0] == 404


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ((), "This server has no text model. It serves nothing yet."),
        (
            ("embed", "rerank", "embed"),
            (
                "This server has no text model. It serves /v1/embeddings, /embeddings, /embedding, "
                "/embed, /info, /v1/rerank, /v1/reranking, /v2/rerank, /rerank, /reranking."
            ),
        ),
    ],
)
async def test_text_routes_without_a_text_worker_name_what_is_served(kinds, said):
    workers = [
        (WorkerEntry(i, f"w{i}", kind, "", 1, 0.0, {}), ("unix:/nowhere",))
        for i, kind in enumerate(kinds)
    ]
    context = make_context(GatewayStart(GatewaySettings(), Keys((), ()), workers))
    runner = await listen(make_app(context), "127.0.0.1", 0)
    host, port = runner.addresses[0][:2]
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(context.registry.stop)
        stack.push_async_callback(runner.cleanup)
        session = await stack.enter_async_context(aiohttp.ClientSession(f"http://{host}:{port}"))
        for method, path in (("GET", "/v1/cache/stats"), ("POST", "/v1/cache/reset")):
            async with session.request(method, path) as reply:
                assert reply.status == 200, path
                report = await reply.json()
                assert not report.get("enabled")
                assert not report.get("freed_bytes")
        for path, body in TEXT.items():
            async with session.post(path, json=body) as reply:
                assert reply.status == 501, path
                error = (await reply.json())["error"]
                assert error["message"] == said
            async with session.post(path, data=b"{") as reply:
                # As in the reference, a model without infill is reported before an invalid body.
                assert reply.status == (501 if path == "/infill" else 400), path
