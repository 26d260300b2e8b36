"""A server with `--api-prefix`."""

from __future__ import annotations

import pytest

from shared.declaration import ConfigError, entries
from shared.settings import GatewaySettings
from tests.contract.harness import CHAT, Harness, body


async def test_every_route_is_below_the_prefix_and_nothing_outside_it(harness: Harness):
    await harness.start(api_prefix="/llm/a", metrics=True)
    for path in ("/", "/health", "/v1/health", "/v1/models", "/slots", "/v1/cache/stats"):
        assert (await harness.get(f"/llm/a{path}"))[0] == 200
        assert (await harness.get(path))[0] == 404
    async with harness.session.get("/llm/a/metrics") as reply:
        assert reply.status == 200
    async with harness.session.post(f"/llm/a{CHAT}", data=body("hi")) as reply:
        assert reply.status == 200
    async with harness.session.post(CHAT, data=body("hi")) as reply:
        assert reply.status == 404
        assert (await reply.json())["error"]["type"] == "not_found"
    async with harness.session.get(f"/llm/a{CHAT}") as reply:
        assert reply.status == 405


async def test_with_keys_only_the_bare_health_paths_are_open(harness: Harness):
    await harness.start(api_prefix="/llm", api_key=("sesame",))
    # No key is needed, but there is no such path.
    assert (await harness.get("/health"))[0] == 404
    assert (await harness.get("/llm/health"))[0] == 401
    assert (await harness.get("/llm/health", Authorization="Bearer sesame"))[0] == 200


@pytest.mark.parametrize("text", ["llm", "/llm/", "/", "//", "/a b", "/{id}", "/a?b"])
def test_an_invalid_prefix_is_refused(text):
    (setting,) = (e for e in entries(GatewaySettings) if e.name == "api_prefix")
    with pytest.raises(ConfigError, match=r"--api-prefix: .* is not a path such as /llm"):
        setting.decode(text, "--api-prefix")
    assert setting.decode("", "--api-prefix") == ""
