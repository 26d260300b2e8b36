"""Histories as bodies of each dialect: the prompt contains every word of them."""

from __future__ import annotations

import json

import pytest

from gateway.dialects.anthropic import messages as anthropic
from gateway.dialects.base import Stamp
from gateway.dialects.openai import chat
from gateway.dialects.openai.responses import dialect as responses
from tests.checkpoint import ROOT
from tests.unit.text import tiny_tokenizer
from tests.unit.text.prompt.history import list_histories
from workers.text.prompt.call_turn import read_arguments
from workers.text.prompt.prompter import Prompter

pytestmark = pytest.mark.slow

STAMP = Stamp("x", 1_715_000_000_000_000_000, 1)
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
HISTORIES = [(code, history) for code, history in list_histories() if history.words]
TEMPLATES = sorted((ROOT / "tests" / "data" / "templates").glob("*.jinja"))


def text_of(message):
    return "".join(part.text for part in message.parts)


def chat_turn(message):
    """Return a turn of a chat body, without ids where the history has none."""
    turn = {"role": message.role, "content": text_of(message) or None}
    if message.role == "tool":
        turn["tool_call_id"] = message.tool_call_id or None
    if message.reasoning:
        turn["reasoning_content"] = message.reasoning
    if message.tool_calls:
        turn["tool_calls"] = [
            {
                "id": call.id or None,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]
    return turn


def chat_body(history):
    function = {"name": "get_weather", "description": None, "parameters": SCHEMA}
    return {
        "messages": [chat_turn(message) for message in history.messages],
        "tools": [{"type": "function", "function": function}],
    }


def message_turn(message):
    """Return a turn of a Messages body; input that was cut stays text."""
    text = [{"type": "text", "text": text_of(message)}] if text_of(message) else []
    if message.role == "tool":
        block = {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": text}
        return {"role": "user", "content": [block]}
    if message.role == "assistant":
        thoughts = [{"type": "thinking", "thinking": message.reasoning, "signature": ""}]
        calls = [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": to_input(call)}
            for call in message.tool_calls
        ]
        text = [*(thoughts if message.reasoning else ()), *text, *calls]
    return {"role": message.role, "content": text}


def to_input(call):
    try:
        return json.loads(call.arguments or "{}")
    except ValueError:
        return call.arguments


def messages_body(history):
    return {
        "messages": [message_turn(message) for message in history.messages],
        "tools": [{"name": "get_weather", "input_schema": SCHEMA}],
    }


def items_of(message):
    """Yield the items of a turn of a Responses body."""
    text = text_of(message)
    if message.role == "tool":
        yield {"type": "function_call_output", "call_id": message.tool_call_id, "output": text}
        return
    if message.reasoning:
        part = {"type": "reasoning_text", "text": message.reasoning}
        yield {"type": "reasoning", "content": [part]}
    if text or not (message.tool_calls or message.reasoning):
        yield {"type": "message", "role": message.role, "content": text}
    for call in message.tool_calls:
        fields = {"call_id": call.id, "name": call.name, "arguments": call.arguments}
        yield {"type": "function_call", **fields}


def items_body(history):
    return {
        "input": [item for message in history.messages for item in items_of(message)],
        "tools": [{"type": "function", "name": "get_weather", "parameters": SCHEMA}],
    }


DIALECTS = {
    "chat": (chat_body, chat.parse),
    "messages": (messages_body, anthropic.parse),
    "responses": (items_body, responses.parse),
}


@pytest.mark.parametrize("path", TEMPLATES, ids=[path.stem for path in TEMPLATES])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_body_is_rendered_whole(dialect, path):
    make, parse = DIALECTS[dialect]
    prompter = Prompter(tiny_tokenizer.byte_level(), path.read_text("utf-8"), {})
    missing = {}
    for code, history in HISTORIES:
        shown = prompter.render(parse(json.dumps(make(history)).encode(), STAMP).request)
        if words := [word for word in history.words if word not in shown]:
            missing[code] = words
    assert missing == {}


def test_a_call_that_was_cut_is_shown_as_it_was_written_by_every_dialect():
    code, history = next(pair for pair in HISTORIES if pair[0] == "ubr")
    assert isinstance(read_arguments(history.messages[1].tool_calls[0].arguments), str), code
    for make, parse in DIALECTS.values():
        request = parse(json.dumps(make(history)).encode(), STAMP).request
        calls = [call for message in request.chat.messages for call in message.tool_calls]
        assert [call.arguments for call in calls] == ['{"city": "word001x']
