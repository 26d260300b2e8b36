"""Rendered bodies and events validate against the official specifications."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import spec

FOLDER = Path(__file__).parent
# Dialect → vendor, component of a body, component of an event.
COMPONENTS = {
    "chat": ("openai", "CreateChatCompletionResponse", "CreateChatCompletionStreamResponse"),
    "completions": ("openai", "CreateCompletionResponse", "CreateCompletionResponse"),
    "messages": ("anthropic", "Message", "MessageStreamEvent"),
    "responses": ("openai", "Response", "ResponseStreamEvent"),
}
ERRORS = "ErrorResponse"
# The route with `?beta=true`, which Claude Code uses, has a separate specification.
BETA = "Beta"


def cases(name: str) -> list[str]:
    paths = (path for kind in COMPONENTS for path in FOLDER.glob(f"{kind}/*/{name}"))
    return sorted(str(path.parent.relative_to(FOLDER)) for path in paths)


@pytest.mark.parametrize("case", cases("body.json"))
def test_a_body_is_as_specified(case):
    vendor, component, _ = COMPONENTS[case.partition("/")[0]]
    body = json.loads((FOLDER / case / "body.json").read_text("utf-8"))
    if body.get("error"):
        component = ERRORS
    assert spec.find_errors(vendor, component, body) == []
    if vendor == "anthropic":
        assert spec.find_errors(vendor, BETA + component, body) == []


@pytest.mark.parametrize("case", cases("stream.sse"))
def test_every_event_is_as_specified(case):
    vendor, _, component = COMPONENTS[case.partition("/")[0]]
    for event in spec.read_events((FOLDER / case / "stream.sse").read_text("utf-8")):
        of_errors = event.get("type") == "error" and vendor == "anthropic"
        named = ERRORS if of_errors else component
        assert spec.find_errors(vendor, named, event) == [], event
        if vendor == "anthropic":
            assert spec.find_errors(vendor, BETA + named, event) == [], event


CHUNK = {
    "id": "x",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None, "logprobs": None}],
}


@pytest.mark.parametrize(
    ("vendor", "component", "value", "complaint"),
    [
        ("openai", "CreateChatCompletionStreamResponse", CHUNK, None),
        (
            "openai",
            "CreateChatCompletionStreamResponse",
            CHUNK | {"object": "chat.completion"},
            "$.object: ",
        ),
        (
            "openai",
            "CreateChatCompletionStreamResponse",
            CHUNK | {"choices": [{"index": 0, "finish_reason": None}]},
            "$.choices[0]: 'delta' is a required property",
        ),
        ("openai", "ResponseStreamEvent", {"type": "response.nothing"}, "$.type: "),
        (
            "openai",
            "ResponseStreamEvent",
            {"type": "response.output_text.delta", "sequence_number": "1"},
            "$.sequence_number: ",
        ),
        ("anthropic", "MessageStreamEvent", {"type": "ping"}, None),
        ("anthropic", "MessageStreamEvent", {"type": "content_block_stop"}, "$: 'index'"),
        (
            "anthropic",
            "MessageStreamEvent",
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta"}},
            "$.delta: 'text' is a required property",
        ),
    ],
)
def test_a_violation_names_the_invalid_key(vendor, component, value, complaint):
    found = spec.find_errors(vendor, component, value)
    if complaint is None:
        assert found == []
    else:
        assert any(text.startswith(complaint) for text in found), found


def test_every_exception_is_needed():
    assert spec.find_needless() == []
