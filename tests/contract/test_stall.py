"""Clients that stop reading and stay connected are disconnected."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tests.contract.harness import CHAT, Harness, body
from tests.wait import until


def post(harness: Harness, data: bytes) -> socket.socket:
    """Return a connection that has sent a request, with small receive buffers."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    host, port = harness.url.removeprefix("http://").split(":")
    client.connect((host, int(port)))
    client.settimeout(20)
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
    client.sendall(head.encode() + data)
    return client


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_that_is_not_read_is_aborted(harness: Harness, stream: bool):
    harness.add_worker(step_s=0.0)
    await harness.start(stall_s=0.2)
    data = body("slow [tokens=400] [big]", stream=stream)
    client = post(harness, data)
    await until(lambda: len(harness.worker.submitted) == 1)
    await until(lambda: not harness.connections, 30)
    await harness.idle()
    assert await asyncio.to_thread(is_broken, client)
    client.close()


def is_broken(client: socket.socket) -> bool:
    """Read to the end; return whether the connection was reset."""
    try:
        while client.recv(1 << 20):
            pass
    except ConnectionResetError:
        return True
    return False
