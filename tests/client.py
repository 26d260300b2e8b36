"""One HTTP client for chat completions of any server under test, streamed or not.

Both forms are read into the same `Answer`, so that tests can compare them. The format of a stream
is checked: roles, one finish reason, usage last, `[DONE]` once.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from tests.wait import until

CHAT = "/v1/chat/completions"
GREEDY = {"temperature": 0}
# By how much rounding may change a logit of a model with 16-bit weights: bfloat16 has steps of
# 0.125 where the logits of the tests' checkpoints are largest.
NEAR = 0.5


@dataclass(frozen=True)
class Answer:
    """An answer, streamed or not.

    Attributes:
        text: reasoning, content and the arguments of calls, concatenated.
    """

    text: str
    finish_reason: str
    usage: dict[str, Any]
    logprobs: list[Any] | None = None


class Client:
    """A client of one server.

    Args:
        fields: of every body; overridden by the fields of a request.
    """

    def __init__(self, session: aiohttp.ClientSession, **fields: Any) -> None:
        self.session = session
        self.fields = fields
        # Chunks with text received on all streams; tests wait for it.
        self.seen_chunks = 0

    def having(self, **fields: Any) -> Client:
        """Return a client with more fields in every body."""
        return Client(self.session, **self.fields | fields)

    def body(self, prompt: str, **fields: Any) -> dict[str, Any]:
        """Return the body of a request; a field `messages` replaces the prompt."""
        return {"messages": [{"role": "user", "content": prompt}], **self.fields, **fields}

    async def get(self, path: str) -> tuple[int, Any]:
        async with self.session.get(path) as reply:
            return reply.status, await reply.json()

    async def post(
        self, prompt: str, *, headers: dict[str, str] | None = None, **fields: Any
    ) -> tuple[int, Any]:
        """Return status and body."""
        body = self.body(prompt, **fields)
        async with self.session.post(CHAT, json=body, headers=headers) as reply:
            return reply.status, await reply.json()

    async def ask(self, prompt: str, **fields: Any) -> Answer:
        """Return the answer of a request without streaming, which must succeed."""
        status, reply = await self.post(prompt, **fields)
        assert status == 200, reply
        (choice,) = reply["choices"]
        logprobs = choice["logprobs"] and choice["logprobs"]["content"]
        return Answer(_join([choice["message"]]), choice["finish_reason"], reply["usage"], logprobs)

    async def stream(
        self, prompt: str, *, headers: dict[str, str] | None = None, **fields: Any
    ) -> AsyncIterator[Any]:
        """Yield the chunks of a stream; the last is "[DONE]"."""
        async for chunk in self.events(CHAT, self.body(prompt, stream=True, **fields), headers):
            yield chunk

    async def events(
        self, path: str, body: dict[str, Any], headers: dict[str, str] | None = None
    ) -> AsyncIterator[Any]:
        """Yield the events of a stream without event names."""
        async with self.session.post(path, json=body, headers=headers) as reply:
            assert reply.status == 200, await reply.text()
            async for line in reply.content:
                if line.startswith(b"data: "):
                    text = line.removeprefix(b"data: ").decode().strip()
                    chunk = text if text == "[DONE]" else json.loads(text)
                    self.seen_chunks += _has_text(chunk)
                    yield chunk

    async def ask_stream(self, prompt: str, **fields: Any) -> Answer:
        """Return the answer of a stream, after checking its format."""
        usage = {"stream_options": {"include_usage": True}}
        return read([chunk async for chunk in self.stream(prompt, **usage | fields)])

    async def slots(self) -> list[str]:
        """Return the state of each slot, then "queued" per waiting request."""
        async with self.session.get("/slots", params=self._query) as reply:
            assert reply.status == 200, await reply.text()
            return [slot["state"] for slot in await reply.json()]

    async def is_idle(self) -> bool:
        """Return whether no request runs or waits."""
        return set(await self.slots()) == {"idle"}

    async def reset_cache(self) -> None:
        """Empty the prompt cache."""
        async with self.session.post("/v1/cache/reset", params=self._query) as reply:
            assert reply.status == 200, await reply.text()

    @property
    def _query(self) -> dict[str, str]:
        return {name: value for name, value in self.fields.items() if name == "model"}


def assert_same(
    found: Sequence[Answer], expected: Sequence[Answer], near: float | None = None
) -> None:
    """Check that answers are equal, with log-probabilities equal up to rounding.

    Args:
        near: 0 for models in float32 on the CPU. Otherwise two tokens whose log-probabilities
            differ by less may change places, and the texts may differ from there on: see
            `_assert_same_to_tie`. None: 0, on macOS `NEAR`.
    """
    if near is None:
        near = NEAR if sys.platform == "darwin" else 0.0
    for index, (one, other) in enumerate(zip(found, expected, strict=True)):
        if near and one.text != other.text:
            _assert_same_to_tie(one, other, near, index)
            continue
        assert one.text == other.text, index
        assert (one.finish_reason, one.usage) == (other.finish_reason, other.usage), index
        for info, wanted in zip(one.logprobs or (), other.logprobs or (), strict=True):
            assert info["token"] == wanted["token"], index
            values = [alternative["logprob"] for alternative in (info, *info["top_logprobs"])]
            assert values == pytest.approx(
                [alternative["logprob"] for alternative in (wanted, *wanted["top_logprobs"])],
                abs=near or 1e-3,
            )


def _assert_same_to_tie(one: Answer, other: Answer, near: float, index: int) -> None:
    """Check that two answers had the same distributions up to the first token that differs.

    Nothing can be said about answers without log-probabilities.
    """
    pairs = zip(one.logprobs or (), other.logprobs or (), strict=False)
    for position, (info, wanted) in enumerate(pairs):
        left, right = _read_logprobs(info), _read_logprobs(wanted)
        both = left.keys() & right.keys()
        gaps = {token: abs(left[token] - right[token]) for token in both}
        assert max(gaps.values(), default=0.0) < near, (index, position, gaps)
        if info["bytes"] != wanted["bytes"]:
            return


def _read_logprobs(info: dict[str, Any]) -> dict[bytes, float]:
    alternatives = (info, *info["top_logprobs"])
    return {bytes(each["bytes"]): each["logprob"] for each in alternatives}


def read(chunks: list[Any]) -> Answer:
    """Fold the chunks of a complete stream without errors."""
    *head, last, usage, done = chunks
    assert done == "[DONE]"
    assert usage["choices"] == [], usage
    (end,) = last["choices"]
    assert "error" not in last, last
    assert end["finish_reason"] in ("stop", "length", "tool_calls"), last
    choices = [choice for chunk in head for choice in chunk["choices"]]
    assert choices[0]["delta"]["role"] == "assistant"
    assert all(choice["finish_reason"] is None for choice in choices)
    text = _join([choice["delta"] for choice in choices])
    infos = [info for c in choices if c["logprobs"] for info in c["logprobs"]["content"]]
    return Answer(text, end["finish_reason"], usage["usage"], infos or None)


async def disturb(
    client: Client,
    requests: Sequence[Awaitable[Answer]],
    chunks: Sequence[int],
    kill_worker: Callable[[str], None],
) -> list[Answer]:
    """Run requests and kill their worker after each of these numbers of chunks; return answers."""
    await client.reset_cache()
    tasks = [asyncio.ensure_future(request) for request in requests]
    for count in chunks:
        due = client.seen_chunks + count
        await until(lambda due=due: client.seen_chunks >= due)
        assert not all(task.done() for task in tasks)
        await asyncio.to_thread(kill_worker, client.fields["model"])
    return await asyncio.gather(*tasks)


def _join(messages: Sequence[dict[str, Any]]) -> str:
    """Return the concatenated text of a message, or of its deltas."""
    calls = (call for message in messages for call in message.get("tool_calls", ()))
    parts = [message.get("reasoning_content") or "" for message in messages]
    parts += [message.get("content") or "" for message in messages]
    return "".join([*parts, *(call["function"].get("arguments", "") for call in calls)])


def _has_text(chunk: Any) -> bool:
    if chunk == "[DONE]":
        return False
    pieces = [choice.get("delta", {}) for choice in chunk.get("choices", ())] or [chunk]
    return any(piece.get("content") or piece.get("text") for piece in pieces)


@asynccontextmanager
async def connect(url: str, **fields: Any) -> AsyncIterator[Client]:
    """Yield a client with an unlimited number of connections."""
    timeout = aiohttp.ClientTimeout(total=None, sock_read=120)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, timeout=timeout, connector=connector) as session:
        yield Client(session, **fields)
