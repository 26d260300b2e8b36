"""Several models on one server: which name selects which model."""

from __future__ import annotations

import pytest

from tests import checkpoint
from tests.client import GREEDY, connect
from tests.integration.conftest import FAMILIES

PROMPT = "Which of you is it?"
FIELDS = GREEDY | {"max_tokens": 12}


@pytest.fixture
async def strict(limited):
    async with connect(limited.url, **FIELDS) as client:
        yield client


async def post_model(client, model):
    status, body = await client.post(PROMPT, model=model, **FIELDS)
    assert status == 200, body
    return body["model"], body["choices"][0]["message"]["content"]


async def test_every_name_selects_its_model(client):
    found = {name: await post_model(client, name) for name in FAMILIES}
    assert {name: model for name, (model, _) in found.items()} == {name: name for name in FAMILIES}
    assert len({text for _, text in found.values()}) == len(FAMILIES)
    # The name of the folder is also a name of the model.
    assert await post_model(client, checkpoint.build("sliding").name) == found["sliding"]
    for unknown in ("gpt-4o", "", None):
        assert await post_model(client, unknown) == found["llama"]


async def test_all_models_are_listed(client):
    status, models = await client.get("/v1/models")
    assert status == 200
    assert [model["id"] for model in models["data"]] == list(FAMILIES)
    assert models["object"] == "list"
    assert {model["object"] for model in models["data"]} == {"model"}


async def test_health_describes_the_default_and_lists_all(client):
    _, report = await client.get("/health")
    assert report["model"] == "llama"
    assert [(row["name"], row["state"]) for row in report["workers"]] == [
        (name, "ready") for name in FAMILIES
    ]


async def test_a_strict_server_refuses_other_names(strict):
    assert (await post_model(strict, "kv8"))[0] == "kv8"
    assert (await post_model(strict, None))[0] == "narrow"
    status, body = await strict.post(PROMPT, model="gpt-4o")
    assert status == 404
    error = body["error"]
    assert (error["type"], error["code"]) == ("not_found", "model_not_found")
    assert error["message"] == "The model 'gpt-4o' does not exist."
    for path in ("/slots?model=gpt-4o", "/v1/cache/stats?model=gpt-4o"):
        assert (await strict.get(path))[0] == 404
