"""The official Anthropic client against the whole server; on SmolLM2 where answers matter."""

from __future__ import annotations

import itertools
import json

import anthropic
import jsonschema
import pydantic
import pytest

from tests.prompt import make_prompt

WEATHER = {
    "name": "get_weather",
    "description": "Tell the weather.",
    "input_schema": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 12},
            "days": {"type": "integer", "minimum": 1, "maximum": 9},
        },
        "required": ["city", "days"],
        "additionalProperties": False,
    },
}
TIME = {"name": "get_time", "input_schema": {"type": "object", "additionalProperties": False}}
CAPITAL = {"role": "user", "content": "What is the capital of France?"}
THINK = {"type": "enabled", "budget_tokens": 6}
BILLING = "x-anthropic-billing-header: cc_version=2.1.241; cch=%05x;"


def ask(*more, **fields):
    """Return the fields of a greedy request that does not use the prompt cache."""
    fixed = {"temperature": 0, "cache_prompt": False}
    common = {"model": "tiny", "max_tokens": 12, "messages": [CAPITAL, *more]}
    return common | {"extra_body": fixed | fields.pop("extra_body", {})} | fields


@pytest.fixture
def client(hermes):
    with anthropic.Anthropic(
        base_url=hermes.url, api_key="none", max_retries=0, _strict_response_validation=True
    ) as made:
        yield made


def both(client, **fields):
    """Return a message, after checking that the streamed one is equal."""
    whole = client.messages.create(**fields)
    with client.messages.stream(**fields) as stream:
        streamed = stream.get_final_message()
    ours, theirs = ([comparable(block) for block in m.content] for m in (whole, streamed))
    assert ours == theirs
    assert (whole.stop_reason, whole.stop_sequence) == (
        streamed.stop_reason,
        streamed.stop_sequence,
    )
    assert whole.usage == streamed.usage
    return whole


def comparable(block):
    """Return a block without the fields that differ between requests."""
    hidden = {"id": None, "parsed_output": None}
    return block.to_dict() | hidden


def test_an_unknown_model_name_reaches_the_default_model(client):
    message = both(client, **ask(model="claude-haiku-4-5"))
    assert "Paris" in message.content[0].text
    assert message.model == "smol"
    counted = client.messages.count_tokens(model="claude-haiku-4-5", messages=[CAPITAL])
    assert message.usage.input_tokens == counted.input_tokens > 0


def test_an_answer_continues_a_last_assistant_turn(client):
    prefill = {"role": "assistant", "content": "The capital of France is the city of"}
    message = both(client, **ask(prefill, model="smol", max_tokens=2))
    assert message.content[0].text.strip().startswith("Paris")


def test_a_stop_sequence_is_reported_and_not_in_the_text(client):
    text = client.messages.create(**ask()).content[0].text
    message = both(client, **ask(stop_sequences=["never", text[12:17]]))
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", text[12:17])
    assert message.content[0].text == text[: text.index(text[12:17])]


def test_a_growing_conversation_is_cached_although_its_billing_line_changes(client):
    rules = make_prompt(7, words=80)
    turns, read = [], []
    for number, question in enumerate(("Hello.", "And now?", "And then?")):
        turns.append({"role": "user", "content": question})
        fields = ask(
            system=[{"type": "text", "text": BILLING % number}, {"type": "text", "text": rules}]
        )
        fields |= {"messages": turns, "extra_body": {"temperature": 0}, "max_tokens": 4}
        with client.messages.stream(**fields) as stream:
            started = next(event for event in stream if event.type == "message_start")
            message = stream.get_final_message()
        usage = message.usage
        counted = client.messages.count_tokens(model="m", messages=turns, system=rules).input_tokens
        assert usage.input_tokens + usage.cache_read_input_tokens == counted
        assert started.message.usage.cache_read_input_tokens == usage.cache_read_input_tokens
        assert started.message.usage.input_tokens == usage.input_tokens
        turns.append(message.to_param())
        read.append((usage.cache_read_input_tokens, counted))
    for (_, before), (cached, _) in itertools.pairwise(read):
        assert cached >= before


@pytest.mark.parametrize("choice", [{"type": "tool", "name": "get_weather"}, {"type": "any"}])
def test_a_forced_call_follows_the_schema_and_takes_a_result(client, choice):
    choice = choice | {"disable_parallel_tool_use": True}
    fields = ask(tools=[WEATHER], tool_choice=choice, max_tokens=80)
    message = both(client, **fields)
    (call,) = message.content
    assert message.stop_reason == "tool_use"
    assert (call.name, call.id[:6]) == ("get_weather", "toolu_")
    jsonschema.validate(call.input, WEATHER["input_schema"])
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny, 21 degrees"}
    turns = [message.to_param(), {"role": "user", "content": [result]}]
    answer = client.messages.create(**ask(*turns, tools=[WEATHER], max_tokens=6))
    assert answer.usage.input_tokens > message.usage.input_tokens
    assert answer.content[0].type == "text"


def test_a_call_without_arguments_has_an_empty_input(client):
    forced = {"type": "tool", "name": "get_time"}
    fields = ask(tools=[WEATHER, TIME], tool_choice=forced, max_tokens=60)
    message = both(client, **fields)
    assert [(call.name, call.input) for call in message.content] == [("get_time", {})]


def test_a_call_cut_by_the_limit_stops_with_max_tokens(client):
    forced = {"type": "tool", "name": "get_weather"}
    fields = ask(tools=[WEATHER], tool_choice=forced, max_tokens=26)
    with client.messages.stream(**fields) as stream:
        message = stream.get_final_message()
    assert message.stop_reason == "max_tokens"
    assert [block.type for block in message.content] == ["tool_use"]


def test_thinking_has_a_budget_a_block_and_a_signature_and_can_be_sent_back(client):
    message = both(client, **ask(model="smol", thinking=THINK, max_tokens=24))
    thought, *texts = message.content
    assert thought.thinking and thought.signature
    assert "think>" not in "".join([thought.thinking, *(block.text for block in texts)])
    assert message.stop_reason == "end_turn"
    question = {"role": "user", "content": "Sure?"}
    again = ask(message.to_param(), question, model="smol", thinking=THINK)
    assert client.messages.create(**again).content[0].type == "thinking"


def test_thinking_is_omitted_or_disabled_as_requested(client):
    omitted = {"type": "adaptive", "display": "omitted"}
    message = both(client, **ask(thinking=omitted))
    assert message.content[0].thinking == ""
    assert message.content[0].signature
    for thinking in ({"type": "disabled"}, anthropic.omit):
        message = client.messages.create(**ask(thinking=thinking))
        assert [block.type for block in message.content] == ["text"]
        assert message.usage.output_tokens_details.thinking_tokens == 0


def test_thinking_up_to_the_limit_is_not_repeated_as_text(client):
    message = both(client, **ask(thinking={"type": "adaptive"}, max_tokens=8))
    assert message.stop_reason == "max_tokens"
    assert [block.type for block in message.content] == ["thinking"]


class Animal(pydantic.BaseModel):
    """The schema of a structured answer."""

    model_config = pydantic.ConfigDict(extra="forbid")
    name: str = pydantic.Field(max_length=12)
    legs: int = pydantic.Field(ge=0, le=9)


def test_parse_returns_a_pydantic_model(client):
    message = client.messages.parse(**ask(model="smol", max_tokens=60), output_format=Animal)
    assert isinstance(message.parsed_output, Animal)


def test_max_tokens_0_fills_the_cache_without_an_answer(client):
    system = make_prompt(8, words=80)
    fields = ask(system=system) | {"extra_body": {"temperature": 0}}
    warmed = client.messages.create(**fields | {"max_tokens": 0})
    assert (warmed.content, warmed.usage.output_tokens) == ([], 0)
    assert warmed.usage.cache_read_input_tokens == 0
    found = client.messages.create(**fields).usage
    assert found.cache_read_input_tokens >= warmed.usage.input_tokens - 1


def test_a_prompt_that_does_not_fit_is_refused_with_anthropics_message(client):
    long = {"role": "user", "content": "word " * 9000}
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(**ask(long))
    assert caught.value.api_message.startswith("prompt is too long: 9")
    assert caught.value.type == "invalid_request_error"


def test_a_thinking_budget_larger_than_the_context_is_accepted(client):
    thinking = {"type": "enabled", "budget_tokens": 31999}
    fields = ask(model="smol", thinking=thinking, max_tokens=32000)
    with client.messages.stream(**fields) as stream:
        for event in stream:
            if event.type == "thinking":
                break
    assert event.snapshot


def test_a_request_of_claude_code_is_answered(client):
    """With its fields, blocks and headers, on its routes."""
    turns = [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "<system-reminder>x</system-reminder>"},
                {"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}},
            ],
        },
        {"role": "system", "content": "Tools: mcp__x__y"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm", "signature": "EqQB"},
                {
                    "type": "tool_use",
                    "id": "toolu_01",
                    "name": "get_time",
                    "input": {},
                    "caller": {"type": "direct"},
                },
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_01",
                    "content": [{"type": "tool_reference", "tool_name": "mcp__x__y"}],
                },
                {"type": "text", "text": "<system-reminder>y</system-reminder>"},
            ],
        },
    ]
    tools = [
        {**TIME, "eager_input_streaming": True},
        {
            "name": "mcp__x__y",
            "input_schema": {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
            },
            "defer_loading": True,
        },
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
    ]
    system = [
        {"type": "text", "text": BILLING % 1},
        {"type": "text", "text": "You are Claude Code.", "cache_control": {"type": "ephemeral"}},
    ]
    shared = {
        "model": "claude-opus-4-8",
        "system": system,
        "tools": tools,
        "messages": turns,
        "thinking": {"type": "adaptive", "display": "summarized"},
    }
    betas = [
        "claude-code-20250219",
        "interleaved-thinking-2025-05-14",
        "context-management-2025-06-27",
    ]
    edits = [{"type": "clear_thinking_20251015", "keep": "all"}]
    with client.beta.messages.stream(
        **shared,
        max_tokens=8,
        betas=betas,
        metadata={"user_id": json.dumps({"session_id": "s"})},
        context_management={"edits": edits},
        output_config={"effort": "high"},
        extra_body={"temperature": 1},
        extra_headers={"x-app": "cli", "anthropic-dangerous-direct-browser-access": "true"},
    ) as stream:
        message = stream.get_final_message()
    assert message.content[0].type == "thinking"
    counted = client.beta.messages.count_tokens(**shared, betas=betas)
    assert counted.input_tokens == message.usage.input_tokens
