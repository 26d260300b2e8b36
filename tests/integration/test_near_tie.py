"""Streams of models in 16 and 4 bits survive the death of their worker."""

from __future__ import annotations

import asyncio

import pytest

from tests import checkpoint
from tests.client import GREEDY, NEAR, assert_same, connect, disturb
from tests.prompt import make_prompt
from tests.server import serve_fleet

DTYPES = ("float16", "bfloat16", "4bit")


@pytest.fixture(scope="module")
def server(make_folder):
    """A server with a recurrent model in each type of weights."""
    workers = [
        {"name": dtype, "model": str(checkpoint.build("recurrent", dtype)), "alias": [dtype]}
        for dtype in DTYPES
    ]
    with serve_fleet(make_folder(), *workers) as server:
        yield server


@pytest.mark.parametrize("dtype", DTYPES)
async def test_answers_equal_an_undisturbed_run_up_to_a_near_tie(server, dtype):
    settings = [GREEDY, {"seed": 1, "temperature": 0.7, "top_k": 8}]
    fields = {"logprobs": True, "top_logprobs": 5, "max_tokens": 60, "cache_prompt": False}
    async with connect(server.url, model=dtype, **fields) as client:

        def ask_all():
            return [
                client.ask_stream(make_prompt(300 + n), **fields)
                for n, fields in enumerate(settings)
            ]

        undisturbed = await asyncio.gather(*ask_all())
        disturbed = await disturb(client, ask_all(), [50], server.kill_worker)
    # No token is missing or sent twice.
    for answer in (*undisturbed, *disturbed):
        assert len(answer.logprobs) == answer.usage["completion_tokens"] == 60
    assert_same(disturbed, undisturbed, near=NEAR)
