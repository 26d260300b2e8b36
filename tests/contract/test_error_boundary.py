"""Exceptions of handlers are reported like other errors, before and during a response."""

from __future__ import annotations

import contextlib

import aiohttp
from aiohttp import web
from yarl import URL

from gateway.app import make_app
from gateway.http.auth import Keys
from gateway.http.sse import EventStream
from gateway.server import GatewayStart, listen, make_context
from shared.settings import GatewaySettings


async def break_at_once(request: web.Request) -> web.StreamResponse:
    raise RuntimeError("a secret detail")


async def break_later(request: web.Request) -> web.StreamResponse:
    def render_failure(failure):
        return f"data: {failure.code}\n\n".encode()

    async with EventStream(request, render_failure, None, 10.0) as stream:
        await stream.send(b"data: good\n\n")
        raise RuntimeError("a secret detail")


@contextlib.asynccontextmanager
async def serving(**handlers):
    context = make_context(GatewayStart(GatewaySettings(), Keys((), ()), []))
    app = make_app(context)
    for name, handler in handlers.items():
        app.router.add_get(f"/{name}", handler)
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    async with aiohttp.ClientSession(f"http://{host}:{port}") as session:
        yield session
    await runner.cleanup()


async def test_an_exception_before_the_response_is_a_500_without_details(caplog):
    async with serving(broken=break_at_once) as session, session.get("/broken") as reply:
        assert reply.status == 500
        assert (await reply.json())["error"] == {
            "message": "Internal server error.",
            "type": "server_error",
            "code": None,
            "param": None,
        }
    assert "a secret detail" in caplog.text


async def test_an_exception_in_a_stream_ends_it_in_its_form():
    async with serving(broken=break_later) as session, session.get("/broken") as reply:
        assert reply.status == 200
        assert await reply.read() == b"data: good\n\ndata: internal\n\n"


async def test_a_server_may_listen_on_a_socket(tmp_path):
    path = str(tmp_path / "s.sock")
    app = make_app(make_context(GatewayStart(GatewaySettings(), Keys((), ()), [])))
    runner = await listen(app, path, 8080)
    async with (
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(path)) as session,
        session.get("http://localhost/v1/models") as reply,
    ):
        assert (await reply.json())["data"] == []
    await runner.cleanup()


async def test_a_server_without_text_workers_says_so():
    async with serving() as session, session.get("/health") as reply:
        assert reply.status == 501
        assert (await reply.json())["error"]["type"] == "not_implemented"


async def test_every_response_has_a_request_id_that_the_log_contains(caplog):
    caplog.set_level("INFO")
    async with serving(broken=break_at_once) as session:
        ids = []
        for path in ("/health", "/broken", "/nothing"):
            async with session.get(path) as reply:
                ids.append(reply.headers["request-id"])
                assert reply.headers["x-request-id"] == ids[-1]
    assert len(set(ids)) == 3
    assert all(f"{name}: GET" in caplog.text for name in ids)


async def test_a_path_can_not_forge_a_log_line(caplog):
    caplog.set_level("INFO")
    url = URL("/v1/models/a%0a00:00:00%20E%20forged", encoded=True)
    async with serving() as session, session.get(url) as reply:
        assert reply.status == 404
    assert "forged: 404" in caplog.text
    assert not any(line.startswith("00:00:00 E") for line in caplog.text.splitlines())
