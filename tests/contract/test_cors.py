"""CORS: preflights and allowed origins."""

from __future__ import annotations

import pytest

from gateway.http.cors import Cors
from shared.declaration import ConfigError, entries
from shared.settings import GatewaySettings
from tests.contract.harness import CHAT, Harness

PAGE = "https://page.example"
ORIGIN = "Access-Control-Allow-Origin"


@pytest.mark.parametrize(
    ("settings", "origin", "allowed"),
    [
        ({}, PAGE, PAGE),
        ({}, "", ""),
        ({"cors_credentials": False}, PAGE, "*"),
        ({"cors_origins": "localhost"}, "http://localhost:3000", "http://localhost:3000"),
        ({"cors_origins": "localhost"}, "http://127.0.0.1", "http://127.0.0.1"),
        ({"cors_origins": "localhost"}, "http://[::1]:5173", "http://[::1]:5173"),
        ({"cors_origins": "localhost"}, "http://localhost.evil.example", None),
        ({"cors_origins": "localhost"}, "http://[", None),
        ({"cors_origins": "https://one.example"}, PAGE, "https://one.example"),
        ({"allowed_origins": (PAGE, "http://b:1")}, PAGE, PAGE),
        ({"allowed_origins": (PAGE, "http://b:1")}, "http://b:1", "http://b:1"),
        ({"allowed_origins": (PAGE,)}, "http://page.example", None),
        ({"allowed_origins": (PAGE,)}, "", None),
        ({"allowed_origins": (PAGE,)}, "null", None),
    ],
)
def test_allowed_origins(settings, origin, allowed):
    headers = Cors(GatewaySettings(**settings)).allow(origin)
    assert headers.get(ORIGIN) == allowed
    # Responses that depend on the origin must not be cached for others.
    assert ("Vary" in headers) == (allowed not in ("*", "https://one.example"))


@pytest.mark.parametrize(
    ("text", "origins"),
    [
        ("https://a.example", ("https://a.example",)),
        (" http://a:80 , https://b ,", ("http://a:80", "https://b")),
        ("https://a.example/", None),
        ("https://a.example/x", None),
        ("https://me@a.example", None),
        ("https://a.example?x", None),
        ("a.example", None),
        ("*", None),
    ],
)
def test_an_invalid_origin_setting_is_refused(text, origins):
    (setting,) = (e for e in entries(GatewaySettings) if e.name == "allowed_origins")
    if origins is None:
        with pytest.raises(ConfigError, match=r"--allowed-origins: .* is not an origin such as"):
            setting.decode(text, "--allowed-origins")
    else:
        assert setting.decode(text, "--allowed-origins") == origins


@pytest.mark.parametrize("path", [CHAT, "/health", "/v1/nowhere", "/"])
async def test_a_preflight_needs_neither_key_nor_route(harness: Harness, path):
    await harness.start(api_key=("sesame",))
    asked = {"Origin": PAGE, "Access-Control-Request-Method": "POST"}
    async with harness.session.options(path, headers=asked) as reply:
        assert reply.status == 200
        assert await reply.read() == b""
        assert reply.content_type == "text/html"
        assert reply.headers[ORIGIN] == PAGE
        assert reply.headers["Access-Control-Allow-Methods"] == "GET, POST, DELETE, OPTIONS"
        assert reply.headers["Access-Control-Allow-Headers"] == "*"
        assert reply.headers["Access-Control-Allow-Credentials"] == "true"


async def test_authorization_is_allowed_by_name(harness: Harness):
    await harness.start()
    asked = {"Origin": PAGE, "Access-Control-Request-Headers": "authorization,content-type"}
    async with harness.session.options(CHAT, headers=asked) as reply:
        assert reply.headers["Access-Control-Allow-Headers"] == "*, Authorization"


async def test_streams_and_refusals_have_the_origin_header_too(harness: Harness):
    await harness.start(api_key=("sesame",), cors_origins="localhost")
    page = {"Origin": "http://localhost:3000"}
    key = {"Authorization": "Bearer sesame"}
    message = [{"role": "user", "content": "hi"}]
    asked = [
        ("POST", CHAT, page | key, {"messages": message}, 200),
        ("POST", CHAT, page | key, {"messages": message, "stream": True}, 200),
        ("POST", CHAT, page, {}, 401),
        ("POST", CHAT, page | key, {}, 400),
        ("GET", "/v1/nowhere", page | key, None, 404),
    ]
    for method, path, headers, body, status in asked:
        async with harness.session.request(method, path, headers=headers, json=body) as reply:
            assert reply.status == status
            assert reply.headers[ORIGIN] == "http://localhost:3000"
            await reply.read()
