"""The client for all servers: streams of chat completions, with the time of every event.

It runs in a single thread on the machine of the servers, so it also reports its own CPU time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
import orjson

GREEDY: Final[Mapping[str, Any]] = {"temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
SAMPLED: Final[Mapping[str, Any]] = {"temperature": 0.8, "top_k": 40, "top_p": 1.0, "min_p": 0.0}
# A stream without an event for this long counts as broken.
SILENCE_S: Final = 120.0


@dataclass
class Stream:
    """One streamed answer; times are those of `time.perf_counter`."""

    sent_s: float
    arrivals_s: list[float] = field(default_factory=list)
    ended_s: float = 0.0
    completion_tokens: int = 0
    cached_tokens: int = 0

    @property
    def ttft_s(self) -> float:
        """Seconds from the request to the first text, or to the end of an empty answer."""
        return min([*self.arrivals_s[:1], self.ended_s]) - self.sent_s

    def gaps_s(self, since_s: float = 0.0, until_s: float = float("inf")) -> list[float]:
        """Return the times between consecutive events whose second one lies in a span."""
        pairs = zip(self.arrivals_s, self.arrivals_s[1:], strict=False)
        return [later - former for former, later in pairs if since_s <= later <= until_s]


class BrokenStreamError(Exception):
    """An answer is not a stream that ends with usage.

    Args: a word for the kind of failure; the server; its output.
    """

    @property
    def what(self) -> str:
        return str(self.args[0])


def open_session(base_url: str) -> aiohttp.ClientSession:
    """Return a session with an unlimited number of connections."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=SILENCE_S)
    return aiohttp.ClientSession(base_url, timeout=timeout, connector=aiohttp.TCPConnector(limit=0))


class Client:
    """A client of one server, with a session of `open_session`."""

    def __init__(self, server: str, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    async def stream(
        self,
        prompt: str,
        max_tokens: int,
        settings: Mapping[str, Any] = GREEDY,
        on_text: Callable[[], None] | None = None,
    ) -> Stream:
        """Send a chat with one message and read its answer to the end."""
        body = {
            # The name that mlx_lm.server uses for the model it was started with.
            "model": "default_model",
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            **settings,
        }
        result = Stream(time.perf_counter())
        async with self.session.post("/v1/chat/completions", json=body) as response:
            if response.status != 200:
                said = await response.text()
                raise BrokenStreamError(str(response.status), self.server, said)
            async for now_s, event in _events(response):
                if "error" in event:
                    raise BrokenStreamError("error", self.server, event["error"])
                _take(result, now_s, event)
                if on_text is not None and result.arrivals_s:
                    on_text()
        result.ended_s = time.perf_counter()
        if not result.completion_tokens:
            raise BrokenStreamError("cut short", self.server, f"{len(result.arrivals_s)} events")
        return result


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[tuple[float, Any]]:
    """Yield the JSON of each SSE event with the time its bytes were read."""
    rest = b""
    async for piece in response.content.iter_any():
        now_s = time.perf_counter()
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"data: {"):
                yield now_s, orjson.loads(line[6:])


def _take(stream: Stream, now_s: float, event: Any) -> None:
    if any(choice["delta"].get("content") for choice in event["choices"]):
        stream.arrivals_s.append(now_s)
    usage = event.get("usage")
    if usage:
        stream.completion_tokens = usage["completion_tokens"]
        details = usage.get("prompt_tokens_details") or {}
        stream.cached_tokens = details.get("cached_tokens", 0)


@dataclass(frozen=True)
class Load:
    """The results of several simultaneous streams."""

    tokens: int
    seconds: float
    client_cpu: float = 0.0

    @property
    def tokens_per_s(self) -> float:
        """Completion tokens of all streams per second, from the first request to the last end."""
        return self.tokens / self.seconds


async def run_load(
    client: Client,
    prompts: Sequence[str],
    max_tokens: int,
    settings: Sequence[Mapping[str, Any]],
) -> Load:
    """Run one stream per prompt at once; `settings` are assigned in turn."""
    start_s, cpu_start_s = time.perf_counter(), time.process_time()
    streams = await asyncio.gather(
        *(
            client.stream(prompt, max_tokens, settings[index % len(settings)])
            for index, prompt in enumerate(prompts)
        )
    )
    seconds = max(stream.ended_s for stream in streams) - start_s
    cpu = (time.process_time() - cpu_start_s) / seconds
    return Load(sum(stream.completion_tokens for stream in streams), seconds, cpu)
