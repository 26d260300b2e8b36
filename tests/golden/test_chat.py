"""Golden cases of the chat dialect: one folder per oddity that must not change unnoticed.

request.json is what a client sends, submit.json the canonical request it becomes, events.jsonl
what a worker may answer, stream.sse and body.json what the client then reads. To write the last
two and submit.json anew after a deliberate change: MLXCEL_REGENERATE=1 pytest tests/golden
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest
from google.protobuf import json_format

from gateway.dialects.base import Parsed, Stamp
from gateway.dialects.openai import chat
from gateway.fold import Item, fold
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb

CASES = Path(__file__).parent / "chat"
STAMP = Stamp("chatcmpl-golden", 1_715_000_000_123_456_789, 4242)
MODEL = "SmolLM2-135M-Instruct"

# Folder → what it pins.
QUIRKS = {
    "plain": "the role comes first and alone, the finish chunk has an empty delta, then [DONE]",
    "usage": "the usage chunk has no choices and stands between the finish chunk and [DONE]",
    "empty": "an answer without a token still has role, finish and [DONE], and content ''",
    "scripts": "no script is escaped to ASCII, quotes and line ends are escaped once",
    "reasoning": "thoughts come twice, as reasoning_content and as reasoning",
    "reasoning_only": "thoughts that use up max_tokens: length, content '' and reasoning_only",
    "tools": "calls start with a name, go on with arguments, and leave content null",
    "tools_preamble": "text before a call stays content; the limit outweighs tool_calls",
    "logprobs": "one position per token: a suppressed token is an empty content with logprobs",
    "failed": "a failure in the stream has finish_reason error and an error object, then [DONE]",
    "sampling": "every sampling field under its first name",
    "aliases": "every sampling field under its other name",
    "parts": "developer is system; content null, absent and in parts; refusals are text",
    "history": "arguments of earlier calls may be a string of JSON or the object itself",
    "schema": "a schema is carried without white space and in the order of its keys",
    "kwargs_nested": "template variables and cache_prompt inside extra_body",
    "kwargs_flat": "extra_body.preserve_thinking alone, the root's cache_prompt wins",
    "loop_off": "one loop field makes the request decide, missing ones are 0; no token limit",
}


def names() -> list[str]:
    return sorted(path.name for path in CASES.iterdir())


def read_events(folder: Path) -> list[Item]:
    """Return the items of a case; a line with the key `accepted` is the reply of Submit."""
    items: list[Item] = []
    for line in (folder / "events.jsonl").read_text("utf-8").splitlines():
        fields = json.loads(line)
        if "accepted" in fields:
            items.append(json_format.ParseDict(fields["accepted"], pb.Accepted()))
        else:
            items.append(json_format.ParseDict(fields, pb.Event()))
    return items


def check(path: Path, actual: bytes) -> None:
    """Compare with a file, or write it."""
    if os.environ.get("MLXCEL_REGENERATE"):
        path.write_bytes(actual)
    assert actual.decode() == path.read_bytes().decode()


def parse(folder: Path) -> Parsed:
    return chat.parse((folder / "request.json").read_bytes(), STAMP)


async def complete(items: list[Item]) -> object:
    async def batches():
        yield items

    return await fold(batches())


def test_every_folder_names_its_quirk():
    assert names() == sorted(QUIRKS)


@pytest.mark.parametrize("name", names())
def test_request_becomes_the_canonical_request(name):
    folder = CASES / name
    text = json_format.MessageToJson(
        parse(folder).request, preserving_proto_field_name=True, sort_keys=True, ensure_ascii=False
    )
    check(folder / "submit.json", text.encode() + b"\n")


@pytest.mark.parametrize("name", names())
def test_events_become_the_stream(name):
    folder = CASES / name
    feed = chat.renderer(parse(folder), MODEL)
    check(folder / "stream.sse", b"".join(map(feed, read_events(folder))))


@pytest.mark.parametrize("name", names())
def test_events_become_the_body(name):
    folder = CASES / name
    parsed = parse(folder)
    try:
        completion = asyncio.run(complete(read_events(folder)))
    except ServiceError as failure:
        actual = chat.error(failure).body
    else:
        actual = chat.body(parsed, MODEL, completion)
    check(folder / "body.json", actual + b"\n")
