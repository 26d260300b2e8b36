"""The memory budget for the keys and values of all requests."""

from __future__ import annotations

import asyncio

import pytest

from shared.lifecycle import EXIT_PERMANENT
from tests import checkpoint
from tests.client import GREEDY, connect
from tests.integration.conftest import BUDGET_BYTES, PAGE_BYTES, PAGE_TOKENS
from tests.prompt import make_prompt
from tests.server import Server
from tests.wait import until
from tests.worker import link

POOR = 1  # its index in the fleet


@pytest.fixture
async def client(limited):
    async with connect(limited.url, model="poor", **GREEDY, cache_prompt=False) as client:
        yield client
        await until(client.is_idle, 3)


@pytest.mark.parametrize("streams", [True, False])
async def test_a_request_over_the_budget_is_refused_with_both_numbers(client, streams):
    """The estimate covers prompt and max_tokens; it is made before anything is computed."""
    status, body = await client.post("x" * 100, max_tokens=12 * PAGE_TOKENS - 300, stream=streams)
    assert status == 503
    error = body["error"]
    assert error["type"] == error["code"] == "request_memory_budget_exceeded"
    assert (error["estimated_bytes"], error["budget_bytes"]) == (12 * PAGE_BYTES, BUDGET_BYTES)
    for number in (error["budget_bytes"], error["estimated_bytes"]):
        assert str(number) in error["message"]
    # Without max_tokens no more than the budget is reserved.
    assert (await client.ask("x" * 100, stop=["e", "a", "o", " "])).finish_reason == "stop"


async def test_a_request_that_fits_later_waits(limited, client):
    """Each may need 6 of 11 pages: one runs, one waits although slots are free."""
    # Repeats one token until loop detection ends it.
    loop = {"logit_bias": {"40": 1000}, "max_pattern_size": 1, "min_count": 300}
    async with link(limited.address(POOR)) as worker:
        tasks = [
            asyncio.create_task(client.ask(f"{n}" * 60, max_tokens=1400, **loop)) for n in range(2)
        ]
        await until(lambda: worker.beat.slots_active == worker.beat.queue_depth == 1)
        # A small request would fit beside the first, but does not overtake the one that waits.
        tasks.append(asyncio.create_task(client.ask("small", max_tokens=4)))
        await until(lambda: worker.beat.queue_depth == 2)
        assert not any(task.done() for task in tasks)
        answers = await asyncio.gather(*tasks)
    assert [answer.usage["completion_tokens"] for answer in answers] == [300, 300, 4]


async def test_requests_that_outgrow_the_budget_are_preempted_and_keep_their_text(limited, client):
    """Both reserve 5 of 11 pages and grow to 6; `narrow` has memory for both."""
    prompts = [make_prompt(1, 10), make_prompt(2, 10)]
    settings = [{}, {"temperature": 0.8, "seed": 4}]

    def ask(client, stops):
        rows = zip(prompts, settings, stops, strict=True)
        return asyncio.gather(*(client.ask_stream(p, stop=s, **f) for p, f, s in rows))

    whole = await ask(client.having(model="narrow"), [[], []])
    ends = [find_new_piece(answer.text) for answer in whole]
    async with link(limited.address(POOR)) as worker:
        before = worker.beat.counters.preemptions
        found = await ask(
            client, [[answer.text[end : end + 3]] for answer, end in zip(whole, ends, strict=True)]
        )
        assert (await worker.fresh_beat()).counters.preemptions > before
        assert worker.beat.memory.budget_bytes == BUDGET_BYTES
    for answer, other, end in zip(found, whole, ends, strict=True):
        assert answer.finish_reason == "stop"
        assert answer.text == other.text[:end]
        assert answer.usage["total_tokens"] > 5 * PAGE_TOKENS


def find_new_piece(text):
    """Return three characters near the end that do not occur together before."""
    return next(
        index
        for index in range(len(text) * 14 // 15, len(text))
        if "\ufffd" not in (piece := text[index : index + 3]) and text.find(piece) == index
    )


@pytest.mark.parametrize("value", ["0", "none", "12Q", "-1", ""])
def test_an_invalid_budget_stops_the_start(make_folder, value):
    server = Server(
        make_folder(),
        "-m",
        str(checkpoint.build("bytes")),
        environ={"MLXCEL_REQUEST_MEMORY_BUDGET": value},
    )
    try:
        assert server.process.wait(20) == EXIT_PERMANENT
    finally:
        server.close()
    (line,) = server.log.read_text().splitlines()
    assert line.startswith("error: MLXCEL_REQUEST_MEMORY_BUDGET: ")
