"""Golden cases of every dialect: one folder per behaviour that must not change unnoticed.

quirk.txt says what a case pins, request.json is what a client sends, submit.json the canonical
request it becomes, events.jsonl what a worker may answer, stream.sse and body.json what the client
then reads. To write the last two and submit.json anew after a deliberate change:
MLXCEL_REGENERATE=1 pytest tests/golden
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format

from gateway.dialects.anthropic import messages
from gateway.dialects.base import Parsed, Stamp
from gateway.dialects.llama import infill, native
from gateway.dialects.openai import chat, completions
from gateway.dialects.openai.responses import dialect as responses
from gateway.generation.fold import Item, fold
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb

FOLDER = Path(__file__).parent
DIALECTS: dict[str, Any] = {
    "chat": chat,
    "completions": completions,
    "messages": messages,
    "responses": responses,
    "native": native,
    "infill": infill,
}
MODEL = "SmolLM2-135M-Instruct"
CASES = sorted(str(path.parent.relative_to(FOLDER)) for path in FOLDER.glob("*/*/request.json"))
LEAST_CASES = 12
# Responses are those of native completions; only the request differs.
PARTS = {"infill"}


def dialect(case: str) -> Any:
    return DIALECTS[case.partition("/")[0]]


def parse(case: str) -> Parsed:
    stamp = Stamp(f"{dialect(case).ID_PREFIX}golden", 1_715_000_000_123_456_789, 4242)
    return dialect(case).parse((FOLDER / case / "request.json").read_bytes(), stamp)


def read_events(case: str) -> list[Item]:
    """Return the items of a case; a line with the key `accepted` is the reply of Submit."""
    items: list[Item] = []
    for line in (FOLDER / case / "events.jsonl").read_text("utf-8").splitlines():
        fields = json.loads(line)
        if "accepted" in fields:
            items.append(json_format.ParseDict(fields["accepted"], pb.Accepted()))
        else:
            items.append(json_format.ParseDict(fields, pb.Event()))
    return items


def check(case: str, name: str, actual: bytes) -> None:
    """Compare with a file, or write it."""
    path = FOLDER / case / name
    if os.environ.get("MLXCEL_REGENERATE"):
        path.write_bytes(actual)
    assert actual.decode() == path.read_bytes().decode()


async def complete(items: list[Item]) -> object:
    async def batches():
        yield items

    return await fold(batches())


@pytest.mark.parametrize("name", sorted(DIALECTS.keys() - PARTS))
def test_every_dialect_has_its_cases(name):
    assert sum(dialect(case) is DIALECTS[name] for case in CASES) >= LEAST_CASES


@pytest.mark.parametrize("case", CASES)
def test_every_case_has_a_description(case):
    assert (FOLDER / case / "quirk.txt").read_text("utf-8").strip()


@pytest.mark.parametrize("case", CASES)
def test_request_becomes_the_canonical_request(case):
    text = json_format.MessageToJson(
        parse(case).request, preserving_proto_field_name=True, sort_keys=True, ensure_ascii=False
    )
    check(case, "submit.json", text.encode() + b"\n")


@pytest.mark.parametrize("case", CASES)
def test_events_become_the_stream(case):
    renderer = dialect(case).renderer(parse(case), MODEL)
    check(case, "stream.sse", b"".join(map(renderer.feed, read_events(case))))


@pytest.mark.parametrize("case", CASES)
def test_events_become_the_body(case):
    parsed = parse(case)
    try:
        completion = asyncio.run(complete(read_events(case)))
    except ServiceError as failure:
        actual = dialect(case).error(failure).body
    else:
        actual = dialect(case).body(parsed, MODEL, completion)
    check(case, "body.json", actual + b"\n")
