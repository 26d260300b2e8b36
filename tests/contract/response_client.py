"""Requests of Responses API tests; responses are validated against the specification."""

from __future__ import annotations

import base64
import json

from tests import spec
from tests.contract.harness import Harness
from tests.response_stream import ResponseReader

PATH = "/v1/responses"
LOOK = {"type": "function", "name": "look", "parameters": {"type": "object"}}


async def create(harness: Harness, given="hi", **fields):
    """Return the response of a request that must succeed."""
    status, reply = await ask(harness, given, **fields)
    assert status == 200, reply
    assert spec.find_errors("openai", "Response", reply) == []
    return reply


async def ask(harness: Harness, given="hi", path=PATH, **fields):
    async with harness.session.post(path, json={"input": given, **fields}) as reply:
        return reply.status, await reply.json()


async def stream(harness: Harness, given="hi", **fields) -> bytes:
    body = {"input": given, "stream": True, **fields}
    async with harness.session.post(PATH, json=body) as reply:
        assert reply.status == 200, await reply.text()
        assert reply.content_type == "text/event-stream"
        return await reply.read()


async def read(harness: Harness, given="hi", **fields) -> ResponseReader:
    """Read a stream to its end; return its reader."""
    data = await stream(harness, given, **fields)
    reader = ResponseReader()
    reader.feed(data)
    assert reader.state == "done"
    for event in spec.read_events(data.decode()):
        assert spec.find_errors("openai", "ResponseStreamEvent", event) == []
    return reader


async def call(harness: Harness, method: str, path: str):
    async with harness.session.request(method, path) as reply:
        return reply.status, await reply.json()


def said(harness: Harness):
    """Return (role, text) of each turn of the worker's last request."""
    turns = harness.worker.submitted[-1].chat.messages
    return [(turn.role, "".join(part.text for part in turn.parts)) for turn in turns]


def without(response, *names):
    """Return a response without fields that differ between requests."""
    shown = {k: v for k, v in response.items() if k not in (*names, "id", "created_at")}
    for item in shown["output"]:
        item.pop("id")
        item.pop("call_id", None)
    return shown | {"completed_at": None}


def open_capsule(item):
    """Return the content of a compaction item."""
    assert item["type"] == "compaction"
    return json.loads(base64.urlsafe_b64decode(item["encrypted_content"]))
