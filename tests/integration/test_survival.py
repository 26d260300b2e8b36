"""Answers continue when a process is killed."""

from __future__ import annotations

import asyncio
import os
import random

import aiohttp
import psutil
import pytest
from tokenizers import Tokenizer

from tests import checkpoint
from tests.client import GREEDY, assert_same, connect, disturb
from tests.message_stream import MessageReader
from tests.prompt import MIX, make_prompt
from tests.response_stream import ResponseReader
from tests.server import none_lives, serve_fleet
from tests.wait import until, wait_for
from tests.worker import link

# Fields that differ between two runs of one request.
DATED = ("id", "created", "timings", "id_slot")


@pytest.fixture(scope="module")
def server(make_folder):
    """A server whose workers the tests kill; afterwards no process is left."""
    workers = [
        {"name": name, "model": str(checkpoint.build(name)), "alias": [name], "parallel": slots}
        for name, slots in (("llama", 20), ("bytes", 4))
    ]
    with serve_fleet(make_folder(), *workers) as server:
        processes = server.tree()
        yield server
        processes += server.tree()
    assert len(processes) > 10
    wait_for(lambda: none_lives(processes), 5)


@pytest.fixture
async def client(server):
    async with connect(server.url) as client:
        yield client


async def test_texts_and_usage_equal_an_undisturbed_run_for_all_settings(server, client):
    client = client.having(model="llama", max_tokens=60, cache_prompt=False)
    requests = [(make_prompt(100 + n), fields) for n, fields in enumerate(MIX)]
    # A stop string in the middle of the text, and loop detection.
    whole = await client.ask(make_prompt(120), **GREEDY)
    middle = len(whole.text) // 2
    requests.append((make_prompt(120), GREEDY | {"stop": [whole.text[middle : middle + 9]]}))
    loop = {"logit_bias": {"300": 1000}, "max_pattern_size": 2, "min_count": 50}
    requests.append((make_prompt(121), GREEDY | loop))

    def ask_all():
        streams = [client.ask_stream(prompt, **fields) for prompt, fields in requests]
        return [*streams, *(client.ask(prompt, **fields) for prompt, fields in requests)]

    undisturbed = await asyncio.gather(*ask_all())
    assert_same(undisturbed[: len(requests)], undisturbed[len(requests) :])
    *_, stopped, looped = undisturbed
    assert whole.text.startswith(stopped.text) and stopped.finish_reason == "stop"
    assert looped.finish_reason == "stop" and looped.usage["completion_tokens"] == 50

    assert_same(await disturb(client, ask_all(), [150], server.kill_worker), undisturbed)
    await until(client.is_idle, 3)


async def test_text_completions_equal_an_undisturbed_run(server, client):
    client = client.having(model="llama", max_tokens=60, cache_prompt=False)
    fields = [GREEDY, {"seed": 1, "temperature": 0.9, "stop": "zzzz"}]

    async def ask(path, prompt, fields):
        """Return the text of a stream and its last event, without times and id.

        How the text is divided into events depends on the load of the machine.
        """
        body = {"prompt": prompt, "stream": True, **client.fields, **fields}
        options = {"stream_options": {"include_usage": True}}
        events = [event async for event in client.events(path, body | options)]
        chunks = [event for event in events if event != "[DONE]"]
        last = {n: v for n, v in chunks[-1].items() if n not in DATED}
        return "".join(map(_read_text, chunks)), last

    def ask_all():
        return [
            ask(path, make_prompt(125 + n), more)
            for path in ("/v1/completions", "/completion")
            for n, more in enumerate(fields)
        ]

    undisturbed = await asyncio.gather(*ask_all())
    assert all(len(text) > 60 for text, _ in undisturbed)
    assert await disturb(client, ask_all(), [60], server.kill_worker) == undisturbed


def _read_text(chunk):
    if "content" in chunk:
        return chunk["content"]
    return "".join(choice["text"] for choice in chunk["choices"])


async def test_messages_continue_without_a_second_message_start(server, client):
    client = client.having(model="llama", max_tokens=60, cache_prompt=False)

    async def ask(number, fields):
        reader = MessageReader()
        body = client.body(make_prompt(number), stream=True, **fields)
        async with client.session.post("/v1/messages", json=body) as reply:
            async for data in reply.content.iter_any():
                client.seen_chunks += data.count(b"event: content_block_delta")
                reader.feed(data)
        message = reader.close()
        return message["content"], message["stop_reason"], message["usage"]

    def ask_all():
        return [ask(150 + n, fields) for n, fields in enumerate((GREEDY, {"seed": 1}))]

    undisturbed = await asyncio.gather(*ask_all())
    assert all(reason == "max_tokens" for _, reason, _ in undisturbed)
    assert await disturb(client, ask_all(), [40], server.kill_worker) == undisturbed


async def test_responses_continue_under_the_same_ids(server, client):
    client = client.having(model="llama", max_tokens=60, cache_prompt=False)

    async def ask(number, fields):
        reader = ResponseReader()
        body = {"input": make_prompt(145 + number), "stream": True} | client.fields | fields
        async with client.session.post("/v1/responses", json=body) as reply:
            async for data in reply.content.iter_any():
                reader.feed(data)
                client.seen_chunks += 1
        response = reader.close()
        # A response whose id was sent can be retrieved.
        status, stored = await client.get(f"/v1/responses/{response['id']}")
        assert (status, stored) == (200, response)
        return response["output_text"], response["status"], response["usage"]

    def ask_all():
        settings = [GREEDY, {"seed": 1, "temperature": 0.9}, GREEDY | {"stop": "zzzz"}]
        return [ask(n, fields) for n, fields in enumerate(settings)]

    undisturbed = await asyncio.gather(*ask_all())
    assert all(usage["output_tokens"] == 60 for _, _, usage in undisturbed)
    assert await disturb(client, ask_all(), [30], server.kill_worker) == undisturbed


async def test_a_character_whose_bytes_span_a_crash_is_complete(server, client):
    """The model generates the bytes of three-byte characters, one token each."""
    client = client.having(model="bytes", max_tokens=400)
    bias = {str(token): 33 if byte >= 0xC0 else 30 for byte, token in read_byte_ids().items()}
    settings = [GREEDY, {"seed": 1}, {"seed": 2, "temperature": 1.5}]

    def ask_all():
        return [
            client.ask_stream(make_prompt(130 + n), logit_bias=bias, **fields)
            for n, fields in enumerate(settings)
        ]

    undisturbed = await asyncio.gather(*ask_all())
    characters = [c for answer in undisturbed for c in answer.text if 0x800 <= ord(c) < 0xFFFD]
    assert len(characters) > 50
    assert_same(await disturb(client, ask_all(), [50, 53], server.kill_worker), undisturbed)


async def test_twenty_streams_survive_five_crashes(server, client):
    client = client.having(model="llama", max_tokens=250)
    # A resumed row is prefilled, which rounds differently: of thousands of samples among many
    # candidates one may fall on the boundary between two.
    sampled = {"top_k": 8, "temperature": 0.7}
    settings = [GREEDY if n % 2 else {"seed": n, **sampled} for n in range(20)]

    def ask_all():
        return [
            client.ask_stream(make_prompt(200 + n), **fields) for n, fields in enumerate(settings)
        ]

    async with link(server.address()) as worker:
        before = worker.beat.memory
    gateway_bytes = gateway_rss(server)
    undisturbed = await asyncio.gather(*ask_all())
    assert all(answer.usage["completion_tokens"] == 250 for answer in undisturbed)

    rng = random.Random(5)
    chunks = [rng.randint(50, 700) for _ in range(5)]
    assert_same(await disturb(client, ask_all(), chunks, server.kill_worker), undisturbed)

    await until(client.is_idle, 3)
    status, report = await client.get("/health")
    assert (status, report["batch"]["queue_depth"]) == (200, 0)
    async with link(server.address()) as worker:
        after = (await worker.fresh_beat()).memory
    assert after.kv_bytes == 0
    assert after.active_bytes - after.prompt_cache_bytes < before.active_bytes * 1.1
    assert gateway_rss(server) < gateway_bytes * 1.2


async def test_a_killed_gateway_restarts_and_the_worker_cancels_its_requests(server, client):
    client = client.having(model="llama", cache_prompt=False)
    expected = await client.ask(make_prompt(140), **GREEDY, max_tokens=20)
    streams = [
        asyncio.create_task(client.ask_stream(make_prompt(141 + n), **GREEDY)) for n in range(3)
    ]
    await until(lambda: client.seen_chunks > 30)
    async with link(server.address()) as worker:
        await until(lambda: worker.beat.slots_active == 3)
        pid = server.worker("llama").pid
        server.kill_gateway()
        for cut in await asyncio.gather(*streams, return_exceptions=True):
            assert isinstance(cut, aiohttp.ClientError)
        await until(lambda: worker.beat.slots_active == 0, 3)
    await asyncio.to_thread(server.wait_until_ready)
    assert server.worker("llama").pid == pid
    assert_same([await client.ask(make_prompt(140), **GREEDY, max_tokens=20)], [expected])


def read_byte_ids():
    """Return the token of each byte of these three-byte characters."""
    tokenizer = Tokenizer.from_file(str(checkpoint.build("bytes") / "tokenizer.json"))
    text = "".join(map(chr, range(0xA000, 0xD000)))
    return dict(zip(text.encode(), tokenizer.encode(text).ids, strict=True))


async def test_gateway_and_event_loop_do_not_preempt_a_step(server, client):
    await client.having(model="llama").ask(make_prompt(150), max_tokens=2)
    if not hasattr(os, "SCHED_BATCH"):
        return  # Not needed on macOS.
    (gateway,) = server.find("gateway")
    worker = server.worker("llama").pid
    threads = [thread.id for thread in psutil.Process(worker).threads()]
    policies = {thread: os.sched_getscheduler(thread) for thread in threads}
    assert os.sched_getscheduler(gateway.pid) == policies[worker] == os.SCHED_BATCH
    # The threads that compute.
    assert os.SCHED_OTHER in policies.values()


def gateway_rss(server):
    (gateway,) = server.find("gateway")
    return psutil.Process(gateway.pid).memory_info().rss
