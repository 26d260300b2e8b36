"""A gateway with its workers and a client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from gateway.app import make_app
from gateway.context import Context
from gateway.fleet.replica import Replica
from gateway.http.auth import Keys
from gateway.http.stall import LIMIT_S
from gateway.server import GatewayStart, make_context, make_runner, stop
from shared.fleet import WorkerEntry
from shared.settings import GatewaySettings
from tests.fakes.text_worker import FakeTextWorker
from tests.wait import until


class Harness:
    """Start it with `start`; send requests with `post`, `stream` and `get`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._entries: list[tuple[WorkerEntry, tuple[str, ...]]] = []
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None
        self.workers: list[FakeTextWorker] = []
        self.context: Context
        self.url = ""

    @property
    def worker(self) -> FakeTextWorker:
        return self.workers[0]

    @property
    def replica(self) -> Replica:
        """The first replica, as the gateway sees it."""
        return self.context.registry.workers[0].replicas[0]

    def add_worker(
        self,
        entry: str = "text",
        replicas: int = 1,
        fleet: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> FakeTextWorker:
        """Add an entry to the fleet; its workers are started by `start`.

        Args:
            fleet: what the fleet file says about the model.
            options: of the fake.
        """
        index = len(self._entries)
        addresses = tuple(
            f"unix:{self._folder}/w{index}.{replica}.sock" for replica in range(replicas)
        )
        made = WorkerEntry(index, entry, "text", "", replicas, 0.0, fleet or {})
        self._entries.append((made, addresses))
        workers = [FakeTextWorker(address, **options) for address in addresses]
        self.workers += workers
        return workers[0]

    async def start(
        self,
        *,
        wait: bool = True,
        start_timeout_s: float = 10.0,
        body_timeout_s: float = 60.0,
        stall_s: float = 60.0,
        **settings: Any,
    ) -> None:
        """Start workers and gateway, and wait until all are ready."""
        if not self.workers:
            self.add_worker()
        keys = Keys(settings.get("api_key", ()), ())
        context = make_context(GatewayStart(GatewaySettings(**settings), keys, self._entries))
        self.context = replace(
            context, start_timeout_s=start_timeout_s, body_timeout_s=body_timeout_s
        )
        app = make_app(self.context)
        app[LIMIT_S] = stall_s
        self._runner = make_runner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        self._session = aiohttp.ClientSession(self.url)
        if wait:
            await asyncio.gather(*(worker.start() for worker in self.workers))
        self.context.registry.start()
        if wait:
            replicas = [r for worker in self.context.registry.workers for r in worker.replicas]
            await until(lambda: all(replica.ready for replica in replicas))

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()
        if self._runner is not None:
            await stop([self._runner], self.context)
        await asyncio.gather(*(worker.stop() for worker in self.workers))

    @property
    def app(self) -> web.Application:
        assert self._runner is not None
        return self._runner.app

    @property
    def connections(self) -> int:
        """Number of open connections."""
        assert self._runner is not None and self._runner.server is not None
        return len(self._runner.server.connections)

    # ------------------------------------------------------------ client

    @property
    def session(self) -> aiohttp.ClientSession:
        assert self._session is not None
        return self._session

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        async with self.session.get(path, headers=headers) as reply:
            return reply.status, await reply.json()

    async def post(self, prompt: str = "hi", **fields: Any) -> tuple[int, Any]:
        """Return status and body of a completion."""
        headers = fields.pop("headers", None)
        async with self.session.post(CHAT, data=body(prompt, **fields), headers=headers) as reply:
            return reply.status, await reply.json()

    async def ask(self, path: str, data: bytes) -> tuple[int, Any]:
        """Return status and body of a POST of any bytes to any path."""
        async with self.session.post(path, data=data) as reply:
            return reply.status, await reply.json()

    async def answer(self, prompt: str, **fields: Any) -> dict[str, Any]:
        """Return the body of a completion that must succeed."""
        status, reply = await self.post(prompt, **fields)
        assert status == 200, reply
        return reply

    async def stream(self, prompt: str = "hi", **fields: Any) -> AsyncIterator[Any]:
        """Yield the chunks of a stream; the last is "[DONE]"."""
        headers = fields.pop("headers", None)
        data = body(prompt, stream=True, **fields)
        async with self.session.post(CHAT, data=data, headers=headers) as reply:
            assert reply.status == 200, await reply.text()
            async for line in reply.content:
                if line.startswith(b"data: "):
                    text = line.removeprefix(b"data: ").decode().strip()
                    yield text if text == "[DONE]" else json.loads(text)

    async def text(self, prompt: str, **fields: Any) -> str:
        """Return the text of a stream, after checking its end."""
        chunks = [chunk async for chunk in self.stream(prompt, **fields)]
        return read_text(chunks)

    async def health(self) -> dict[str, Any]:
        return (await self.get("/health"))[1]

    async def idle(self) -> None:
        """Wait until no request runs or waits."""
        await until(lambda: not any(worker.active or worker.queued for worker in self.workers))
        for worker in self.context.registry.workers:
            await until(lambda: not any(r.forwarded for r in worker.replicas))  # noqa: B023
            assert worker.admission.depth == 0


CHAT = "/v1/chat/completions"


def body(prompt: str, **fields: Any) -> bytes:
    """Return the JSON of a chat request."""
    return json.dumps({"messages": [{"role": "user", "content": prompt}], **fields}).encode()


def read_text(chunks: list[Any]) -> str:
    """Return the text of a whole stream that did not fail."""
    *chunks, done = chunks
    assert done == "[DONE]"
    choices = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
    assert choices[-1]["finish_reason"] in ("stop", "length", "tool_calls"), chunks[-1]
    return "".join(choice["delta"].get("content") or "" for choice in choices)
