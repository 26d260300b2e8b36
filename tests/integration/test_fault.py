"""When a model fails, streams pause; only the request that caused it gets an error."""

from __future__ import annotations

import asyncio

import pytest

from tests import checkpoint
from tests.client import GREEDY, assert_same, connect
from tests.fakes.faulty_worker import FOLDER_ENV
from tests.prompt import make_prompt
from tests.server import serve_fleet
from tests.wait import until

MODULE = "tests.fakes.faulty_worker"
NEIGHBOURS = [
    (make_prompt(1), GREEDY),
    (make_prompt(2), {"seed": 2, "top_k": 40}),
    (make_prompt(3), {"seed": 3, "top_k": 40, "repetition_penalty": 1.2}),
]


@pytest.fixture(scope="module")
def server(make_folder):
    """A server whose model fails on prompts that contain `raise`, `hang` or `abort`."""
    folder = make_folder()
    worker = {"name": "text", "model": str(checkpoint.build("llama")), "parallel": 8}
    with serve_fleet(
        folder,
        worker,
        supervisor={"step_timeout_s": 3},
        modules={"text": MODULE},
        environ={FOLDER_ENV: str(folder)},
    ) as server:
        yield server


@pytest.fixture
async def client(server):
    async with connect(server.url, cache_prompt=False, max_tokens=200) as client:
        yield client


@pytest.fixture(scope="module")
async def expected(server):
    """The neighbours' answers without a failure."""
    async with connect(server.url, cache_prompt=False, max_tokens=200) as client:
        return [await client.ask(prompt, **fields) for prompt, fields in NEIGHBOURS]


class Observer:
    """Records /health and the errors of new requests while a worker fails."""

    def __init__(self, client):
        self._client = client.having(**GREEDY, max_tokens=2)
        self.health = set()
        self.replies = []

    async def _observe(self):
        while True:
            status, _ = await self._client.get("/health")
            self.health.add(status)
            if status == 503 and len(self.replies) < 10:
                self.replies.append(asyncio.create_task(self._client.post("and you?")))
            await asyncio.sleep(0.05)

    async def __aenter__(self):
        self._task = asyncio.create_task(self._observe())
        return self

    async def __aexit__(self, *_):
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self.replies = await asyncio.gather(*self.replies)


def check(observer):
    """Check that /health reported the failure and that no error contains text of gRPC."""
    assert observer.health == {200, 503}
    errors = [(status, body["error"]) for status, body in observer.replies if status != 200]
    assert errors
    for status, error in errors:
        assert (status, error["type"]) == (503, "server_error")
        assert error["message"].startswith("The model worker is ")


def start_neighbours(client):
    return [asyncio.create_task(client.ask_stream(p, **fields)) for p, fields in NEIGHBOURS]


async def test_a_step_that_fails_once_pauses_every_stream(server, client, expected):
    neighbours = start_neighbours(client)
    await until(lambda: client.seen_chunks > 30)
    async with Observer(client) as observer:
        answer = await client.ask("please raise now", **GREEDY, max_tokens=5)
        assert_same(await asyncio.gather(*neighbours), expected)
    assert answer.usage["completion_tokens"] == 5
    check(observer)
    assert server.log.read_text().count("ended with exit code 70") == 1
    await until(client.is_idle, 3)


@pytest.mark.parametrize(
    ("word", "message", "logged"),
    [
        ("abort", "failed on this request repeatedly.", "ended by signal 6"),
        ("hang", "took longer than 3 s (--step-timeout).", "a step has run for 3."),
    ],
)
async def test_a_prompt_that_kills_the_worker_fails_no_other_request(
    server, client, expected, word, message, logged
):
    neighbours = start_neighbours(client)
    await until(lambda: client.seen_chunks > 30)
    async with Observer(client) as observer:
        status, body = await client.post(f"please {word} now", **GREEDY)
        assert_same(await asyncio.gather(*neighbours), expected)
    assert (status, body["error"]["type"]) == (500, "server_error")
    assert body["error"]["message"].endswith(message)
    check(observer)
    # Beside others, twice unless it hangs, then alone; a crash during Submit is not counted.
    assert server.log.read_text().count(logged) >= 2
    await asyncio.to_thread(server.wait_until_ready)
    assert_same([await client.ask_stream(NEIGHBOURS[0][0], **GREEDY)], expected[:1])
