"""Errors of chat bodies: the field and the message."""

from __future__ import annotations

import json

import pytest

from gateway.dialects.base import Policy, Stamp
from gateway.dialects.openai import chat, wire
from shared.errors import ServiceError
from shared.pb import common_pb2 as common

STAMP = Stamp("chatcmpl-x", 1_715_000_000_000_000_000, 1)
USER = {"role": "user", "content": "x"}
PART = {"type": "text", "text": "x"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}


def parse(body: dict | bytes):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return chat.parse(data, STAMP)


def refusal(body: dict | bytes) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        parse(body)
    assert caught.value.code == "invalid_request"
    return caught.value


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": {}}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": ["x"]}, "messages[0]"),
        ({"messages": [{}]}, "messages[0].role"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [USER, {"role": "user", "content": 5}]}, "messages[1].content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "smell"}]}]},
            "messages[0].content[0].type",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
            "messages[0].content[0].text",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {}}]}]},
            "messages[0].tool_calls[0].function.name",
        ),
    ],
)
def test_an_invalid_message_is_named_by_its_path(fields, param):
    assert refusal(fields).param == param


@pytest.mark.parametrize(
    "turns",
    [
        [{"role": "user", "content": " \n"}],
        [{"role": "user"}, {"role": "assistant", "content": None}],
        [{"role": "system", "content": ""}],
    ],
)
def test_an_empty_input_is_refused(turns):
    failure = refusal({"messages": turns})
    assert failure.message == (
        "Request must include at least one non-empty message content or media input."
    )


@pytest.mark.parametrize(
    "turn",
    [
        {"role": "system", "content": "x"},
        {"role": "tool", "tool_call_id": "c", "content": ""},
        {"role": "assistant", "reasoning": "x"},
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f"}}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]},
    ],
)
def test_results_reasoning_calls_and_media_count_as_input(turn):
    assert parse({"messages": [turn]})


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("typical_p", 0, "typical_p must be in (0.0, 1.0]"),
        ("typical_p", 1.1, "typical_p must be in (0.0, 1.0]"),
        ("top_n_sigma", -0.1, "top_n_sigma must be >= 0.0"),
        ("xtc_threshold", 0.6, "xtc_threshold must be between 0.0 and 0.5"),
        ("xtc_probability", 1.1, "xtc_probability must be between 0.0 and 1.0"),
        ("top_logprobs", 3, "top_logprobs requires logprobs to be set to true"),
        ("temperature", -1, "temperature must be >= 0.0"),
        ("top_p", 1.5, "top_p must be between 0.0 and 1.0"),
        ("seed", -2, "seed must be -1 for random, or between 0 and 18446744073709551615"),
        ("seed", 2**64, "seed must be -1 for random, or between 0 and 18446744073709551615"),
        ("max_tokens", 0, "max_tokens must be >= 1, or -1 for no limit"),
        ("max_completion_tokens", -2, "max_completion_tokens must be >= 1, or -1 for no limit"),
        ("thinking_budget", -2, "thinking_budget must be >= -1"),
        ("temperature", "hot", "temperature: Expected `float | null`, got `str`"),
        ("max_tokens", 1.5, "max_tokens: Expected `int | null`, got `float`"),
        ("stop", [1], "stop[0]: Expected `str`, got `int`"),
        ("cache_prompt", "no", "cache_prompt: Expected `bool | null`, got `str`"),
        ("temperature", 1e300, "temperature is out of range"),
        ("n", 2, "n must be 1: one choice is generated per request"),
        ("n", True, "n must be 1: one choice is generated per request"),
        ("modalities", ["text", "audio"], 'modalities must be ["text"]: answers are text'),
        ("audio", {"voice": "x"}, "audio is not supported: answers are text"),
        ("functions", [{"name": "f"}], "functions is not supported: use tools"),
        ("guided_json", {}, "guided_json is not supported: use response_format"),
        ("logit_bias", {"x": 1}, "logit_bias['x'] is not a token id"),
        ("logit_bias", {"5": True}, "logit_bias['5'] must be a number, or false"),
        ("dry_sequence_breakers", [-1], "dry_sequence_breakers[0] is not a token id"),
    ],
)
def test_a_value_out_of_range_is_refused(field, value, message):
    failure = refusal({"messages": [USER], field: value})
    assert failure.message == message
    assert failure.param is not None
    assert failure.param.startswith(field)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"logit_bias": dict.fromkeys(map(str, range(8193)), 1)}, "logit_bias"),
        ({"logit_bias": [[1, 1]] * 8193}, "logit_bias"),
        ({"dry_sequence_breakers": [1] * 8193}, "dry_sequence_breakers"),
        ({"dry_sequence_breakers": ["a"] * 65}, "dry_sequence_breakers"),
        ({"messages": [USER] * 32_769}, "messages"),
        ({"messages": [{"role": "user", "content": [PART] * 32_768}]}, "messages"),
    ],
)
def test_excessive_counts_are_refused(fields, param):
    assert refusal({"messages": [USER]} | fields).param == param


def test_top_logprobs_has_a_range():
    body = {"messages": [USER], "logprobs": True}
    assert parse(body | {"top_logprobs": 20}).request.logprobs.top == 20
    assert refusal(body | {"top_logprobs": 21}).message == "top_logprobs must be between 0 and 20"


def test_a_thinking_budget_over_the_limit_is_refused():
    failure = refusal({"messages": [USER], "max_tokens": 10, "thinking_budget_tokens": 11})
    assert failure.message == "thinking_budget_tokens (11) must be <= max_tokens (10)"
    assert parse({"messages": [USER], "max_tokens": -1, "thinking_budget_tokens": 11})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tools": [TOOL] * 129}, "Too many tools: 129. Maximum allowed is 128."),
        (
            {"tools": [TOOL], "tool_choice": "any"},
            (
                "Invalid tool_choice value: 'any'. Must be 'auto', 'none', 'required', "
                "or a function object."
            ),
        ),
        ({"tool_choice": "required"}, "tool_choice 'required' needs at least one tool."),
        (
            {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}},
            "tool_choice names a function that is not in tools.",
        ),
        (
            {"tools": [TOOL], "tool_choice": {"type": "custom", "function": {"name": "f"}}},
            "tool_choice must be of type 'function' and name a function.",
        ),
        (
            {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": ""}}},
            "tool_choice must be of type 'function' and name a function.",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": ""}}]},
            "tools[0].function.name must not be empty",
        ),
        (
            {"tools": [TOOL, {"type": "retrieval"}]},
            "tools[1].type: Invalid enum value 'retrieval'",
        ),
    ],
)
def test_tools_are_checked(fields, message):
    assert refusal({"messages": [USER]} | fields).message == message


def schema(**inner) -> dict:
    return {"type": "json_schema", "json_schema": inner}


@pytest.mark.parametrize(
    ("response_format", "start"),
    [
        ("text", "response_format: Expected"),
        ({"type": "json_object"}, "invalid response_format: "),
        ({"type": 5}, "invalid response_format: "),
        (schema(), "invalid response_format: json_schema.schema is required"),
        (schema(schema=[]), "invalid JSON schema for response_format: "),
        (
            schema(schema={"enum": ["x" * 70_000]}),
            "response_format schema too large: schema serialised size 70013 bytes exceeds limit 6",
        ),
        (
            schema(schema={"anyOf": [{"$ref": "#"}] * 65}),
            "response_format schema too large: $ref count 65 exceeds limit 64",
        ),
    ],
)
def test_a_response_format_has_limits(response_format, start):
    failure = refusal({"messages": [USER], "response_format": response_format})
    assert failure.message.startswith(start)


def test_a_schema_may_be_32_levels_deep_and_no_deeper():
    def nested(depth):
        value = {}
        for _ in range(depth):
            value = {"not": value}
        return {"messages": [USER], "response_format": schema(schema=value)}

    assert parse(nested(32)).request.HasField("grammar")
    assert refusal(nested(33)).message == (
        "response_format schema too large: nesting depth 33 exceeds limit 32"
    )


@pytest.mark.parametrize("form", [{"type": "text"}, {}, None, {"type": None}])
def test_a_text_format_constrains_nothing(form):
    assert not parse({"messages": [USER], "response_format": form}).request.HasField("grammar")


def test_json_object_is_any_object_if_enabled():
    stamp = Stamp("chatcmpl-x", 0, 1, Policy(json_object=True))
    body = {"messages": [USER], "response_format": {"type": "json_object"}}
    grammar = chat.parse(json.dumps(body).encode(), stamp).request.grammar
    assert json.loads(grammar.json_schema) == {"type": "object"}


@pytest.mark.parametrize(
    ("fields", "effort", "enabled"),
    [
        ({}, None, None),
        ({"reasoning_effort": "low", "enable_thinking": False}, "low", False),
        ({"extra_body": {"reasoning_effort": "low", "enable_thinking": True}}, "low", True),
        (
            {
                "reasoning_effort": "high",
                "enable_thinking": True,
                "extra_body": {"reasoning_effort": "low", "enable_thinking": False},
            },
            "high",
            True,
        ),
        ({"extra_body": {"reasoning_effort": 5, "enable_thinking": "no"}}, None, None),
    ],
)
def test_effort_and_enable_thinking_are_read_from_root_or_extra_body(fields, effort, enabled):
    reasoning = parse({"messages": [USER]} | fields).request.reasoning
    assert (reasoning.effort if reasoning.HasField("effort") else None) == effort
    assert (reasoning.enabled if reasoning.HasField("enabled") else None) == enabled


def test_a_forced_choice_and_a_schema_exclude_each_other():
    body = {
        "messages": [USER],
        "tools": [TOOL],
        "tool_choice": "required",
        "response_format": schema(schema={}),
    }
    assert refusal(body).param == "tool_choice"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "The body is not valid JSON"),
        (b"{", "The body is not valid JSON"),
        (b'{"messages":[{"role":"user","content":"\xff"}]}', "The body is not valid UTF-8"),
        (
            b'{"messages":[{"role":"user","content":"x"}],"zz":"\xff"}',
            "The body is not valid UTF-8",
        ),
        (b'{"messages":[],"zz":' + b"[" * 100_000, "The body is nested too deeply"),
        (b'{"messages":[],"temperature":NaN}', "The body is not valid JSON"),
        (b'{"messages":[],"temperature":1e999}', "temperature: Number out of range"),
        (b"[]", "Expected `object`, got `array`"),
    ],
)
def test_invalid_json_is_refused(body, message):
    assert refusal(body).message.startswith(message)


def test_null_template_variables_count_as_absent():
    body = {"messages": [USER], "extra_body": {"chat_template_kwargs": None}}
    assert parse(body).request.chat.template_kwargs_json == ""


@pytest.mark.parametrize(
    ("fields", "variables"),
    [
        ({"preserve_thinking": True}, {"preserve_thinking": True}),
        (
            {"preserve_thinking": True, "extra_body": {"preserve_thinking": False}},
            {"preserve_thinking": False},
        ),
        ({"preserve_thinking": True, "chat_template_kwargs": {"x": 1}}, {"x": 1}),
    ],
)
def test_preserve_thinking_is_read_at_the_top_level(fields, variables):
    request = parse({"messages": [USER], **fields}).request
    assert json.loads(request.chat.template_kwargs_json) == variables


def test_template_variables_have_a_depth_limit():
    deep = b'{"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"a":' + (
        b"[" * 70 + b"]" * 70 + b"}}"
    )
    assert refusal(deep).message == "chat_template_kwargs.a is nested too deeply"


def test_error_messages_are_short_for_any_input():
    assert len(refusal({"messages": [{"role": "r" * 10_000}]}).message) <= 300


def test_a_field_is_in_one_table_only():
    fields = set(wire.ChatBody.__struct_fields__)
    assert fields.isdisjoint(wire.CHAT_IGNORED)
    assert fields.issuperset(wire.CHAT_REFUSED)


def test_media_is_referenced_and_not_fetched():
    body = {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": "http://x/", "detail": "low"}},
                    {"type": "video_url", "video_url": {"url": "file:///x", "fps": 2}},
                    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                    {"type": "image_url", "image_url": "data:,"},
                ],
            }
        ]
    }
    parsed = parse(body)
    assert [(ref.kind, ref.url, ref.path) for ref in parsed.media] == [
        (common.Media.KIND_IMAGE, "http://x/", "messages[0].content[0]"),
        (common.Media.KIND_VIDEO, "file:///x", "messages[0].content[1]"),
        (common.Media.KIND_AUDIO, "AAAA", "messages[0].content[2]"),
        (common.Media.KIND_IMAGE, "data:,", "messages[0].content[3]"),
    ]
    assert parsed.request.chat.messages[0].parts[0].media.detail == "low"


def test_only_an_assistant_message_can_be_continued():
    turn = {"role": "assistant", "content": "The"}
    continued = parse({"messages": [USER, turn], "add_generation_prompt": False})
    assert not continued.request.chat.add_generation_prompt
    assert parse({"messages": [USER, turn]}).request.chat.add_generation_prompt
    assert refusal({"messages": [USER], "continue_final_message": True}).param == "messages"


@pytest.mark.parametrize(
    ("last", "fields", "continued"),
    [
        ({"content": "The"}, {}, True),
        ({"content": [{"type": "text", "text": "The"}]}, {}, True),
        ({"content": "The"}, {"add_generation_prompt": True}, False),
        ({"content": "The"}, {"continue_final_message": False}, False),
        ({"content": ""}, {}, False),
        ({"content": "The", "tool_calls": [{"id": "c", "function": {"name": "f"}}]}, {}, False),
        ({"role": "user", "content": "The"}, {}, False),
    ],
)
def test_a_server_may_continue_assistant_messages_by_default(last, fields, continued):
    stamp = Stamp("chatcmpl-x", 0, 1, Policy(prefill_assistant=True))
    body = {"messages": [USER, {"role": "assistant"} | last], **fields}
    parsed = chat.parse(json.dumps(body).encode(), stamp)
    assert parsed.request.chat.add_generation_prompt != continued


@pytest.mark.parametrize(("asked", "seed"), [({}, 9), ({"seed": 3}, 3), ({"seed": -1}, 1)])
def test_a_server_may_have_a_default_seed(asked, seed):
    stamp = Stamp("chatcmpl-x", 0, 1, Policy(seed=9))
    parsed = chat.parse(json.dumps({"messages": [USER]} | asked).encode(), stamp)
    assert parsed.request.sampling.seed == seed
