"""Starts and stops the contestants: the bare loop, this server, mlx_lm.server.

Owns their processes: each has its own process group, which is killed when its context ends. All
inherit the same environment, so that a preloaded BLAS is used by all.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
import tomli_w

from tests.checkpoint import ROOT
from tests.perf.client import GREEDY, Client, Load, open_session, run_load
from tests.server import find_free_port

START_S: Final = 120.0
STOP_S: Final = 10.0
# Longest time the bare loop may take for one job.
JOB_S: Final = 600.0


class StartError(Exception):
    """A contestant did not start; the message ends with its last output."""


@dataclass
class Server:
    """A running HTTP server and its client."""

    name: str
    client: Client
    pids: Mapping[str, int] = field(default_factory=dict)

    async def run(
        self, prompts: Sequence[str], max_tokens: int, *settings: Mapping[str, Any]
    ) -> Load:
        """Run one stream per prompt; several settings are assigned in turn."""
        return await run_load(self.client, prompts, max_tokens, settings or (GREEDY,))


class Bare:
    """The process of the bare loop."""

    name = "bare"

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def run(
        self, prompts: Sequence[str], max_tokens: int, settings: Mapping[str, Any] = GREEDY
    ) -> Load:
        """Run one row per prompt, all with the same sampler."""
        job = {"prompts": prompts, "max_tokens": max_tokens, **settings}
        answer = json.loads(await self.ask(json.dumps(job).encode()))
        return Load(answer["tokens"], answer["seconds"])

    async def ask(self, line: bytes) -> bytes:
        """Send a line and return the line of the process."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        return await self.read_line(JOB_S)

    async def read_line(self, timeout_s: float) -> bytes:
        """Return the next line of the process."""
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), timeout_s)
        if not line:
            raise StartError("the bare loop ended; its error stands above")
        return line


@contextlib.asynccontextmanager
async def _process(arguments: Sequence[str], **pipes: Any) -> AsyncIterator[Any]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, cwd=ROOT, start_new_session=True, **pipes
    )
    try:
        yield process
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), STOP_S)
            return


@contextlib.asynccontextmanager
async def bare(model: Path) -> AsyncIterator[Bare]:
    """Start the bare loop over a model."""
    async with open_bare(["-m", "tests.perf.bare", str(model)]) as loop:
        yield loop


@contextlib.asynccontextmanager
async def open_bare(arguments: Sequence[str]) -> AsyncIterator[Bare]:
    """Start a baseline and wait for its first line."""
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
    async with _process(arguments, **pipes) as process:
        loop = Bare(process)
        await loop.read_line(START_S)
        yield loop


@contextlib.asynccontextmanager
async def mlxcel(model: Path, parallel: int) -> AsyncIterator[Server]:
    """Start this server: a gateway and a text worker."""
    with tempfile.TemporaryDirectory(prefix="mlxcel-perf-") as folder:
        config, port = Path(folder) / "fleet.toml", find_free_port()
        worker = {"name": "text", "kind": "text", "model": str(model), "parallel": parallel}
        config.write_text(
            tomli_w.dumps({"gateway": {"port": port, "max_queue_depth": 64}, "workers": [worker]})
        )
        commands = {
            "gateway": ["-m", "gateway", "--config", str(config)],
            "worker": ["-m", "workers.text", "--config", str(config), "--name", "text"],
        }
        async with _server("mlxcel", commands, port, Path(folder) / "log") as server:
            yield server


@contextlib.asynccontextmanager
async def mlx_lm_server(model: Path, parallel: int) -> AsyncIterator[Server]:
    """Start mlx-lm's server for as many parallel streams."""
    port = find_free_port()
    command = ["-m", "mlx_lm", "server", "--model", str(model), "--port", str(port)]
    command += ["--decode-concurrency", str(parallel), "--prompt-concurrency", str(parallel)]
    command += ["--log-level", "WARNING"]
    with tempfile.TemporaryDirectory(prefix="mlxcel-perf-") as folder:
        log = Path(folder) / "log"
        async with _server("mlx_lm.server", {"server": command}, port, log) as server:
            yield server


@contextlib.asynccontextmanager
async def _server(
    name: str, commands: Mapping[str, Sequence[str]], port: int, log: Path
) -> AsyncIterator[Server]:
    async with contextlib.AsyncExitStack() as stack:
        output = stack.enter_context(log.open("wb"))
        pipes = {"stdin": asyncio.subprocess.DEVNULL, "stdout": output, "stderr": output}
        started = {
            part: await stack.enter_async_context(_process(command, **pipes))
            for part, command in commands.items()
        }
        session = await stack.enter_async_context(open_session(f"http://127.0.0.1:{port}"))
        server = Server(
            name, Client(name, session), {part: process.pid for part, process in started.items()}
        )
        await _wait_ready(server, list(started.values()), log)
        yield server


async def _wait_ready(
    server: Server, processes: Sequence[asyncio.subprocess.Process], log: Path
) -> None:
    """Wait until the server answers a request, which also warms it up."""
    deadline_s = time.monotonic() + START_S
    while True:
        with contextlib.suppress(aiohttp.ClientError, OSError):
            async with server.client.session.get("/health") as response:
                if response.status == 200:
                    await server.client.stream("Hello", 2)
                    return
        ended = any(process.returncode is not None for process in processes)
        if ended or time.monotonic() > deadline_s:
            raise StartError(f"{server.name} did not come up:\n{_last_words(log)}")
        await asyncio.sleep(0.2)


def _last_words(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:]
