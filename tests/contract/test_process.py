"""A gateway process: start, stop, and failed starts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from pathlib import Path

import aiohttp
import pytest

from shared import lifecycle
from tests.contract.harness import CHAT, body
from tests.server import find_free_port

pytestmark = pytest.mark.slow

FLEET = '[[workers]]\nname = "text"\naddress = "unix:{socket}"\n'


async def spawn(*arguments: str, **env: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        *arguments,
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **env},
    )


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    path = tmp_path / "fleet.toml"
    path.write_text(FLEET.format(socket=tmp_path / "w.sock"))
    return path


async def wait_status(session: aiohttp.ClientSession, status: int) -> None:
    """Wait until /health answers with a status."""
    deadline_s = time.monotonic() + 20
    while time.monotonic() < deadline_s:
        with contextlib.suppress(aiohttp.ClientError):
            async with session.get("/health") as reply:
                if reply.status == status:
                    return
        await asyncio.sleep(0.02)
    raise AssertionError(f"/health never answered {status}")


async def kill(process: asyncio.subprocess.Process) -> str:
    """Stop a process; return its log."""
    if process.returncode is None:
        process.kill()
    _, err = await process.communicate()
    return err.decode()


@pytest.fixture
async def running(fleet: Path):
    """Yield a client of a gateway process, the process, and its worker process."""
    port = find_free_port()
    socket_path = fleet.parent / "w.sock"
    worker = await spawn("tests.fakes.text_worker", "--address", f"unix:{socket_path}")
    gateway = await spawn("gateway", "--config", str(fleet), MLXCEL_PORT=str(port))
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        try:
            await wait_status(session, 200)
            yield session, gateway, worker
        finally:
            await kill(gateway)
            await kill(worker)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_stopping_ends_running_streams_with_an_error_quickly(running, number):
    session, gateway, _ = running
    data = body("x [tokens=4000]", stream=True)
    async with session.post(CHAT, data=data) as reply:
        await reply.content.readline()
        began_s = time.monotonic()
        gateway.send_signal(number)
        raw = await reply.content.read()
        assert raw.endswith(b"data: [DONE]\n\n")
        assert b'"finish_reason":"error"' in raw
        assert b"shutting down" in raw
    assert await gateway.wait() == 0
    # The rest of the stream would take eight seconds.
    assert time.monotonic() - began_s < 5.0
    log = await kill(gateway)
    assert "Traceback" not in log
    assert "Unclosed" not in log


async def test_a_stream_is_resumed_after_the_worker_is_killed(running, fleet):
    session, _, worker = running
    async with session.post(CHAT, data=body("x [tokens=200]", seed=1)) as reply:
        wanted = (await reply.json())["choices"]
    asking = asyncio.create_task(session.post(CHAT, data=body("x [tokens=200]", seed=1)))
    await asyncio.sleep(0.2)
    worker.kill()
    await worker.wait()
    await wait_status(session, 503)
    async with session.post(CHAT, data=body("x")) as reply:
        assert reply.status == 503
        assert (await reply.json())["error"]["type"] == "server_error"
    again = await spawn("tests.fakes.text_worker", "--address", f"unix:{fleet.parent / 'w.sock'}")
    try:
        reply = await asyncio.wait_for(asking, 20)
        assert reply.status == 200
        assert (await reply.json())["choices"] == wanted
    finally:
        await kill(again)


async def one_line_exit(*arguments: str, **env: str) -> str:
    """Return the only line of a process that exits permanently."""
    process = await spawn("gateway", *arguments, **env)
    out, err = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == lifecycle.EXIT_PERMANENT
    assert out == b""
    lines = [line for line in err.decode().splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert "Traceback" not in err.decode()
    return lines[0]


async def test_a_port_in_use_is_reported_in_one_line(fleet: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = await one_line_exit("--config", str(fleet), "--port", str(port))
    assert f"port {port} is in use" in line
    assert "--port" in line


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--port", "http"], "'http' is not a whole number"),
        (["--sse-ping-interval", "0"], "--sse-ping-interval"),
        (["--api-key", ""], "--api-key: the value is not a key"),
        (["--api-key-file", "missing"], "missing"),
        (["--host", "256.0.0.1"], "256.0.0.1"),
    ],
)
async def test_invalid_settings_are_reported_in_one_line(fleet: Path, flags, text):
    assert text in await one_line_exit("--config", str(fleet), *flags, MLXCEL_PORT="0")


async def test_a_missing_fleet_file_is_reported_in_one_line(tmp_path: Path):
    assert "no such file" in await one_line_exit("--config", str(tmp_path / "no.toml"))


@pytest.mark.redis
async def test_a_restarted_gateway_finds_its_responses_in_redis(fleet, redis_server):
    port = find_free_port()
    worker = await spawn("tests.fakes.text_worker", "--address", f"unix:{fleet.parent}/w.sock")
    gateways = []
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:

        async def start_gateway():
            words = ("gateway", "--config", str(fleet), "--store", redis_server.url)
            gateways.append(await spawn(*words, MLXCEL_PORT=str(port)))
            await wait_status(session, 200)

        async def ask(**fields):
            async with session.post("/v1/responses", json={"input": "hi", **fields}) as reply:
                assert reply.status == 200
                return await reply.json()

        try:
            await start_gateway()
            made = await ask(conversation="kept")
            gateways[0].kill()
            await gateways[0].wait()
            await start_gateway()
            async with session.get(f"/v1/responses/{made['id']}") as reply:
                assert (reply.status, await reply.json()) == (200, made)
            # One more user turn, and one of the assistant.
            words = len(made["output_text"].split())
            for fields in ({"previous_response_id": made["id"]}, {"conversation": "kept"}):
                assert (await ask(**fields))["usage"]["input_tokens"] == 2 + words
        finally:
            for process in (*gateways, worker):
                await kill(process)


@pytest.mark.parametrize("address", ["disk", "http://x", "redis://:secret@host:port/0"])
async def test_an_invalid_store_is_reported_without_its_password(fleet, address):
    process = await spawn("gateway", "--config", str(fleet), "--store", address)
    _, err = await process.communicate()
    assert process.returncode == lifecycle.EXIT_PERMANENT
    assert "--store" in err.decode()
    assert "secret" not in err.decode()
    assert "Traceback" not in err.decode()
