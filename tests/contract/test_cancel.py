"""A disconnect removes the request in every state."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tests.contract.harness import CHAT, Harness, body
from tests.wait import until


async def leave(harness: Harness, prompt: str, ready, **fields) -> None:
    """Send a request, wait until `ready`, and close the connection."""
    reader, writer = await connect(harness, prompt, **fields)
    await until(ready)
    writer.close()
    await writer.wait_closed()
    del reader


async def connect(harness: Harness, prompt: str, **fields):
    """Send a request on a separate connection."""
    host, port = harness.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    data = body(prompt, **fields)
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + data)
    return reader, writer


async def fill(harness: Harness, count: int) -> list[asyncio.Task]:
    """Keep slots and the worker's backlog busy."""
    tasks = [asyncio.create_task(harness.answer("busy [tokens=4000]")) for _ in range(count)]
    await until(lambda: len(harness.worker.submitted) == count)
    return tasks


@pytest.mark.parametrize("stream", [True, False])
async def test_a_disconnect_in_the_gateway_queue_does_not_reach_the_worker(
    harness: Harness, stream: bool
):
    harness.add_worker(slots=1)
    await harness.start()
    busy = await fill(harness, 3)
    admission = harness.context.registry.default().admission
    await leave(harness, "gone", lambda: admission.waiting == 1, stream=stream)
    await until(lambda: admission.waiting == 0)
    assert len(harness.worker.submitted) == 3
    assert harness.worker.cancelled == []
    for task in busy:
        task.cancel()
    await harness.idle()


@pytest.mark.parametrize("stream", [True, False])
async def test_a_disconnect_in_the_worker_queue_empties_it(harness: Harness, stream: bool):
    harness.add_worker(slots=1)
    await harness.start()
    [busy] = await fill(harness, 1)
    await leave(harness, "gone", lambda: harness.worker.queued == 1, stream=stream)
    await until(lambda: harness.worker.queued == 0)
    assert harness.worker.active == 1
    busy.cancel()
    await harness.idle()


@pytest.mark.parametrize("stream", [True, False])
async def test_a_disconnect_during_prefill_frees_the_slot(harness: Harness, stream: bool):
    await harness.start()
    await leave(harness, "gone [prefill=100000]", lambda: harness.worker.active == 1, stream=stream)
    await harness.idle()
    assert len(harness.worker.cancelled) == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_a_disconnect_during_decode_frees_the_slot(harness: Harness, stream: bool):
    await harness.start()
    decoding = lambda: harness.worker.counters.decode_tokens > 20  # noqa: E731
    await leave(harness, "gone [tokens=4000]", decoding, stream=stream)
    await harness.idle()
    assert harness.worker.counters.decode_tokens < 3000


async def test_a_disconnect_during_submit_cancels_at_the_worker(harness: Harness):
    await harness.start()
    await leave(harness, "gone [accept=0.2] [tokens=4000]", lambda: harness.worker.submitted)
    await asyncio.sleep(0.4)
    assert harness.worker.queued == harness.worker.active == 0
    await harness.idle()


async def test_a_freed_slot_serves_the_next_request(harness: Harness):
    harness.add_worker(slots=1)
    await harness.start()
    await leave(harness, "gone [tokens=4000]", lambda: harness.worker.active == 1, stream=True)
    assert await harness.text("next", seed=1) == await harness.text("next", seed=1)


async def test_a_stalled_client_does_not_delay_others(harness: Harness):
    harness.add_worker(step_s=0.0)
    await harness.start()
    host, port = harness.url.removeprefix("http://").split(":")
    slow = socket.socket()
    # Small buffers, so that the gateway notices soon.
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.connect((host, int(port)))
    data = body("slow [tokens=400] [big]", stream=True)
    slow.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n".encode())
    slow.sendall(data)
    await until(lambda: harness.worker.active == 1)
    texts = await asyncio.gather(
        *(harness.text(f"quick {index} [tokens=200]") for index in range(3))
    )
    assert all(texts)
    slow.close()
    await harness.idle()


async def test_a_stalled_client_loses_its_request_above_the_limit(harness: Harness):
    harness.add_worker(step_s=0.0)
    await harness.start()
    reader, writer = await connect(harness, "slow [tokens=400] [big]", stream=True)
    # Stop reading from the socket too.
    writer.transport.pause_reading()
    await until(lambda: harness.worker.cancelled, 30.0)
    await until(lambda: harness.worker.active == 0)
    writer.transport.resume_reading()
    raw = b""
    while not raw.endswith(b"[DONE]\n\n\r\n0\r\n\r\n"):
        raw += await asyncio.wait_for(reader.read(1 << 16), 10.0)
    assert b'"finish_reason":"error"' in raw
    assert b"read the stream too slowly" in raw
    writer.close()
    await writer.wait_closed()
    await harness.idle()
