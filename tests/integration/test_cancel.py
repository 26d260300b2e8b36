"""A client that disconnects frees its slot and memory, in every state of its request."""

from __future__ import annotations

import asyncio

import pytest

from tests.client import GREEDY, assert_same
from tests.prompt import make_prompt
from tests.wait import until
from tests.worker import link

LONG = GREEDY | {"max_tokens": 8000, "cache_prompt": False}
SHORT = GREEDY | {"max_tokens": 20, "cache_prompt": False}
# From the disconnect to a free slot: one or two steps, and slack for a busy machine.
SOON_S = 2.0


@pytest.fixture
async def worker(fleet, client):
    """A link to the default worker; afterwards it is idle and gives the same answer as before."""
    reference = make_prompt(1)
    before = await client.ask(reference, **SHORT)
    async with link(fleet.address()) as worker:
        yield worker
    await until(client.is_idle, SOON_S)
    assert_same([await client.ask_stream(reference, **SHORT)], [before])


async def disconnect(*requests):
    """Close the connections of running requests."""
    assert not any(request.done() for request in requests)
    for request in requests:
        request.cancel()
    await asyncio.gather(*requests, return_exceptions=True)


@pytest.mark.parametrize("streams", [True, False])
async def test_a_disconnect_while_decoding_frees_the_slot(client, worker, streams):
    ask = client.ask_stream if streams else client.ask
    before = (await worker.fresh_beat()).counters.decode_tokens
    request = asyncio.create_task(ask(make_prompt(2), **LONG))
    await until(lambda: worker.beat.counters.decode_tokens > before + 5)
    await disconnect(request)
    await until(client.is_idle, SOON_S)
    assert (await worker.fresh_beat()).counters.cancelled > 0


async def test_a_disconnect_during_a_long_prefill_ends_it(client, worker):
    """Beside a running stream a prompt is prefilled in small chunks, which takes seconds."""
    other = client.having(**LONG)
    stream = asyncio.create_task(other.ask_stream(make_prompt(3)))
    await until(lambda: other.seen_chunks > 5)
    before = (await worker.fresh_beat()).counters.prefill_tokens
    request = asyncio.create_task(client.ask(make_prompt(4, 4000), **LONG))
    await until(lambda: worker.beat.counters.prefill_tokens > before)

    await disconnect(request)
    await until(lambda: worker.beat.slots_active == 1, SOON_S)
    after = worker.beat.counters.prefill_tokens
    assert after - before < 4000
    assert (await worker.fresh_beat()).counters.prefill_tokens == after
    await disconnect(stream)


async def test_requests_whose_client_disconnects_while_queued_are_never_prefilled(client, worker):
    """Eight slots; two requests wait in the worker, the others in the gateway."""
    holders = client.having(**LONG)
    running = [asyncio.create_task(holders.ask_stream(make_prompt(5 + n))) for n in range(8)]
    await until(lambda: holders.seen_chunks > 100)
    prefilled = (await worker.fresh_beat()).counters.prefill_tokens
    waiting = [asyncio.create_task(client.ask(make_prompt(20 + n), **LONG)) for n in range(6)]

    async def waits(count):
        queue_depth = (await client.get("/health"))[1]["batch"]["queue_depth"]
        return (await client.slots()).count("queued") == count == queue_depth

    await until(lambda: waits(6))
    assert (await worker.fresh_beat()).queue_depth == 2
    await disconnect(*waiting)
    await until(lambda: waits(0), SOON_S)
    await disconnect(*running)
    await until(client.is_idle, SOON_S)
    assert (await worker.fresh_beat()).counters.prefill_tokens == prefilled
