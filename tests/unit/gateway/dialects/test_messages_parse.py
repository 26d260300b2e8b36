"""Message bodies: parsing, refusals, and the form of errors."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest

from gateway.dialects.anthropic import errors, messages
from gateway.dialects.base import Policy, Stamp
from shared.errors import CODES, ServiceError
from shared.pb import text_pb2 as pb

STAMP = Stamp("msg_x", 1_715_000_000_000_000_000, 1)
ASK = [{"role": "user", "content": "x"}]
TOOL = {"name": "f", "input_schema": {"type": "object"}}


def parse(**fields):
    return messages.parse(json.dumps({"messages": ASK} | fields).encode(), STAMP)


def say(*blocks, role="user"):
    return {"messages": [*ASK, {"role": role, "content": list(blocks)}]}


def refusal(**fields):
    with pytest.raises(ServiceError) as caught:
        parse(**fields)
    assert caught.value.code == "invalid_request"
    return caught.value


IMAGE = {"type": "image", "source": {"type": "file", "file_id": "f"}}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": " \n"}]}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        (say({"type": "text"}), "messages[1].content[0].text"),
        (say({"text": "x"}), "messages[1].content[0].type"),
        (say(IMAGE), "messages[1].content[0].source"),
        (
            say({"type": "tool_result", "tool_use_id": "a", "content": [IMAGE]}),
            "messages[1].content[0].content[0].source",
        ),
        ({"system": [{"type": "text", "text": 1}]}, "system[0].text"),
        ({"max_tokens": -2}, "max_tokens"),
        ({"temperature": -0.1}, "temperature"),
        ({"top_p": 1.5}, "top_p"),
        ({"stop_sequences": "x"}, "stop_sequences"),
        ({"thinking": {"type": "sometimes"}}, "thinking.type"),
        ({"thinking": {"type": "enabled", "budget_tokens": -1}}, "thinking.budget_tokens"),
        (
            {"max_tokens": 4, "thinking": {"type": "enabled", "budget_tokens": 5}},
            "thinking.budget_tokens",
        ),
        ({"tools": [{"name": "f", "input_schema": "x"}]}, "tools[0].input_schema"),
        ({"tools": [TOOL] * 129}, "tools"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "g"}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool"}}, "tool_choice"),
        (
            {"output_config": {"format": {"type": "text", "schema": {}}}},
            "output_config.format.type",
        ),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": 3}}},
            "output_config.format.schema",
        ),
        ({"output_format": {"type": "json_schema"}}, "output_format.schema"),
        ({"compaction": {"type": "x"}}, "compaction"),
        ({"thread": {"type": "create"}}, "thread"),
    ],
)
def test_an_invalid_field_is_named(fields, param):
    error = refusal(**fields)
    assert error.param == param
    # Errors of this dialect name the field in the message only.
    if param != "messages":
        assert param.split(".")[0] in error.message


@pytest.mark.parametrize(
    ("given", "kept"),
    [({"a": 1}, '{"a":1}'), (None, "{}"), ([], "[]"), ([1], "[1]"), ('{"a', '{"a'), ("", "")],
)
def test_the_input_of_an_earlier_call_may_be_cut(given, kept):
    turns = say({"type": "tool_use", "id": "i", "name": "f", "input": given}, role="assistant")
    calls = parse(**turns).request.chat.messages[-1].tool_calls
    assert [call.arguments.replace(" ", "") for call in calls] == [kept]


def test_a_forced_choice_and_a_schema_exclude_each_other():
    schema = {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}}
    assert refusal(tools=[TOOL], tool_choice={"type": "any"}, **schema).param == "tool_choice"
    assert parse(tools=[TOOL], **schema).request.HasField("grammar")


@pytest.mark.parametrize(
    ("choice", "mode"),
    [
        (None, pb.ToolChoice.MODE_AUTO),
        ("auto", pb.ToolChoice.MODE_AUTO),
        ("any", pb.ToolChoice.MODE_REQUIRED),
        ("required", pb.ToolChoice.MODE_REQUIRED),
        ({"type": "any"}, pb.ToolChoice.MODE_REQUIRED),
        ({"type": "none"}, pb.ToolChoice.MODE_NONE),
        ({"type": "tool", "name": "f"}, pb.ToolChoice.MODE_NAMED),
        ({"type": "maybe"}, pb.ToolChoice.MODE_AUTO),
        ({"type": ["any"]}, pb.ToolChoice.MODE_AUTO),
        (7, pb.ToolChoice.MODE_AUTO),
    ],
)
def test_tool_choices_and_their_modes(choice, mode):
    assert parse(tools=[TOOL], tool_choice=choice).request.chat.tool_choice.mode == mode


def test_server_tools_are_not_counted_and_can_not_be_forced():
    tools = [{"type": "web_search_20250305", "name": "web_search"}] * 200
    assert not parse(tools=tools).request.chat.tools
    assert refusal(tools=tools, tool_choice={"type": "any"}).param == "tool_choice"
    named = {"type": "tool", "name": "web_search"}
    assert refusal(tools=tools, tool_choice=named).param == "tool_choice"


def test_deferred_tools_are_not_counted_and_a_forced_one_is_loaded():
    deferred = [TOOL | {"name": f"mcp{n}", "defer_loading": True} for n in range(300)]
    request = parse(tools=[TOOL, *deferred], tool_choice={"type": "tool", "name": "mcp7"}).request
    assert [tool.name for tool in request.chat.tools] == ["f", "mcp7"]


@pytest.mark.parametrize(
    "field",
    [
        {"messages": [{"role": "system", "content": "x"}]},
        {"system": "x", "messages": [{"role": "user", "content": ""}]},
        say({"type": "tool_result", "tool_use_id": "a"}),
        say({"type": "thinking", "thinking": "x"}, role="assistant"),
        {
            "messages": [
                {"role": "user", "content": [{**IMAGE, "source": {"type": "url", "url": "u"}}]}
            ]
        },
    ],
)
def test_any_content_counts_as_input(field):
    assert parse(**field).request.chat.messages


@pytest.mark.parametrize(
    ("last", "continued"),
    [
        ({"role": "assistant", "content": "The"}, True),
        ({"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm"}]}, False),
        ({"role": "assistant", "content": [{"type": "tool_use", "name": "f", "id": "a"}]}, False),
        ({"role": "user", "content": "x"}, False),
    ],
)
def test_a_last_assistant_message_is_continued(last, continued):
    chat = parse(messages=[*ASK, last]).request.chat
    assert chat.add_generation_prompt != continued


@pytest.mark.parametrize(
    ("thinking", "enabled", "thoughts"),
    [
        (None, None, "hidden"),
        ({"type": "disabled", "budget_tokens": 9}, False, "hidden"),
        ({"type": "enabled"}, True, "shown"),
        ({"type": "adaptive"}, True, "shown"),
        ({"type": "between_tools"}, True, "shown"),
        ({"type": "adaptive", "display": "omitted"}, True, "carried"),
        ({"type": "adaptive", "display": "full"}, True, "shown"),
    ],
)
def test_thinking_is_set_for_the_template_and_shown_on_request(thinking, enabled, thoughts):
    parsed = parse(thinking=thinking)
    reasoning = parsed.request.reasoning
    assert (reasoning.enabled if reasoning.HasField("enabled") else None) == enabled
    assert not reasoning.HasField("budget_tokens")
    assert parsed.thoughts == thoughts


def test_user_ids_separate_caches_and_other_metadata_is_ignored():
    def bucket(metadata):
        stamp = replace(STAMP, policy=Policy(caches_by_session=True))
        fields = {"messages": ASK, "metadata": metadata}
        return messages.parse(json.dumps(fields).encode(), stamp).request.cache.session_key

    assert bucket({"user_id": "u"}) == "/u"
    assert [bucket(odd) for odd in (None, "u", {}, {"user_id": 3}, [])] == [""] * 5


def test_a_growing_conversation_keeps_its_prompt_prefix():
    """System text stays at its first position."""
    turns = [
        {"role": "user", "content": "one"},
        {"role": "system", "content": "note"},
        {"role": "assistant", "content": [{"type": "tool_use", "name": "f", "id": "a"}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]},
        {"role": "system", "content": "another"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "three"},
    ]
    grown = [list(parse(messages=turns[:size]).request.chat.messages) for size in (2, 5, 7)]
    for shorter, longer in itertools.pairwise(grown):
        assert longer[: len(shorter)] == shorter


# ---------------------------------------------------------------------------- failures


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("invalid_request", 400, "invalid_request_error"),
        ("missing_api_key", 401, "authentication_error"),
        ("feature_disabled", 403, "permission_error"),
        ("model_not_found", 404, "not_found_error"),
        ("payload_too_large", 413, "request_too_large"),
        ("internal", 500, "api_error"),
        ("not_implemented", 501, "not_implemented"),
        ("not_supported", 501, "not_supported_error"),
        ("server_busy", 503, "overloaded_error"),
        ("worker_unavailable", 503, "api_error"),
        ("timeout", 504, "timeout_error"),
    ],
)
def test_status_and_type(code, status, kind):
    reply = errors.error(ServiceError(code, "m", retry_after_s=0.2))
    assert reply.status == status
    wanted = {"type": "error", "error": {"type": kind, "message": "m"}, "request_id": None}
    assert json.loads(reply.body) == wanted
    assert reply.headers["Retry-After"] == "1"


@pytest.mark.parametrize("code", CODES)
def test_permanent_errors_forbid_a_retry(code):
    reply = errors.error(ServiceError(code, "m"))
    others = {"request_memory_budget_exceeded", "worker_hung", "missing_api_key", "invalid_api_key"}
    permanent = reply.status == 501 or code in others
    assert (reply.headers.get("x-should-retry") == "false") == permanent


def test_a_prompt_that_is_too_long_has_the_message_agents_expect():
    details = {"n_prompt_tokens": 5000, "n_ctx": 4096}
    failure = ServiceError("context_length_exceeded", "m", details=details)
    error = json.loads(errors.error(failure).body)["error"]
    assert error["message"] == "prompt is too long: 5000 tokens > 4095 maximum"
    plain = ServiceError("context_length_exceeded", "m")
    assert json.loads(errors.error(plain).body)["error"]["message"] == "m"
