"""Responses bodies: parsing and errors."""

from __future__ import annotations

import json

import pytest

from gateway.dialects.base import Policy, Stamp
from gateway.dialects.openai.responses import dialect, wire
from shared.errors import ServiceError
from shared.pb import common_pb2 as common
from shared.pb import text_pb2 as pb

STAMP = Stamp("resp_x", 1_715_000_000_000_000_000, 4242)
USER = {"role": "user", "content": "hi"}
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a":1}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "done"}
THOUGHT = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]}
SAID = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]}
TOOL = {"type": "function", "name": "f", "description": "d", "parameters": {"b": 1, "a": 2}}
PICTURE = {"type": "input_image", "image_url": "http://x/y.png", "detail": "low"}


def parse(given="hi", **fields):
    return dialect.parse(json.dumps({"input": given, **fields}).encode(), STAMP)


def turns(items):
    """Return (role, text, reasoning, names of calls) of each turn."""
    return [
        (m.role, "".join(p.text for p in m.parts), m.reasoning, [c.name for c in m.tool_calls])
        for m in parse(items).request.chat.messages
    ]


def refusal(given="hi", **fields):
    with pytest.raises(ServiceError) as caught:
        parse(given, **fields)
    assert caught.value.code == "invalid_request"
    return caught.value


# ------------------------------------------------------------------------------ items


def test_a_string_is_a_user_message():
    assert turns("hello") == [("user", "hello", "", [])]


def test_an_item_with_a_role_and_no_type_is_a_message():
    assert turns([USER]) == turns([{"type": "message", **USER}]) == [("user", "hi", "", [])]


def test_instructions_and_developer_messages_join_one_system_turn():
    items = [{"role": "developer", "content": "b"}, {"role": "system", "content": "c"}, USER]
    chat = parse(items, instructions="a").request.chat
    assert [(m.role, m.parts[0].text) for m in chat.messages] == [
        ("system", "a\n\nb\n\nc"),
        ("user", "hi"),
    ]


def test_a_system_turn_in_the_middle_stays_there():
    items = [USER, {"role": "system", "content": "s"}, USER]
    assert [role for role, *_ in turns(items)] == ["user", "system", "user"]


@pytest.mark.parametrize("kind", ["input_text", "output_text", "text"])
def test_all_text_parts_are_joined(kind):
    content = [{"type": kind, "text": "a"}, {"type": "refusal", "refusal": "b"}]
    assert turns([{"role": "assistant", "content": content}, USER])[0] == (
        "assistant",
        "ab",
        "",
        [],
    )


def test_calls_are_added_to_the_assistant_turn():
    second = CALL | {"call_id": "c2", "name": "g"}
    items = [USER, SAID, CALL, second, OUTPUT, OUTPUT | {"call_id": "c2"}, CALL]
    assert turns(items) == [
        ("user", "hi", "", []),
        ("assistant", "yes", "", ["f", "g"]),
        ("tool", "done", "", []),
        ("tool", "done", "", []),
        ("assistant", "", "", ["f"]),
    ]
    messages = parse(items).request.chat.messages
    assert [m.tool_call_id for m in messages if m.role == "tool"] == ["c1", "c2"]
    assert [c.id for c in messages[1].tool_calls] == ["c1", "c2"]


@pytest.mark.parametrize("arguments", ['{"a":1}', {"a": 1}])
def test_arguments_are_a_json_string_or_an_object(arguments):
    (_, turn) = parse([USER, CALL | {"arguments": arguments}]).request.chat.messages
    assert json.loads(turn.tool_calls[0].arguments) == {"a": 1}


@pytest.mark.parametrize("follower", [SAID, CALL])
def test_reasoning_belongs_to_the_following_turn(follower):
    assert turns([USER, THOUGHT, THOUGHT, follower])[1][2] == "hm\nhm"


def test_reasoning_without_a_following_turn_has_its_own():
    assert turns([USER, THOUGHT, USER])[1] == ("assistant", "", "hm", [])
    assert turns([USER, THOUGHT])[1] == ("assistant", "", "hm", [])


def test_reasoning_between_calls_separates_their_turns():
    items = [USER, THOUGHT, CALL, THOUGHT, CALL]
    assert [calls for *_, calls in turns(items)] == [[], ["f"], ["f"]]


def test_a_tool_output_may_have_parts():
    parts = [
        {"type": "input_text", "text": "a"},
        PICTURE,
        {"type": "output_text", "text": "b"},
        {"type": "table", "rows": [1, 2]},
    ]
    parsed = parse([USER, CALL, OUTPUT | {"output": parts}])
    *_, tool, shown = parsed.request.chat.messages
    assert tool.parts[0].text == (
        'a\nb\n{"type":"table","rows":[1,2]}\n[Image output attached in the next message]'
    )
    assert (shown.role, len(shown.parts)) == ("user", 1)
    assert parsed.media[0].path == "input[2].output[1]"


def test_images_of_several_tools_follow_all_of_their_outputs():
    outputs = [OUTPUT | {"output": [PICTURE]}, OUTPUT | {"call_id": "c2", "output": [PICTURE]}]
    messages = parse([USER, CALL, CALL | {"call_id": "c2"}, *outputs, USER]).request.chat.messages
    roles = [m.role for m in messages]
    assert roles == ["user", "assistant", "tool", "tool", "user", "user"]
    assert len(messages[4].parts) == 2


@pytest.mark.parametrize("role", ["assistant", "system", "developer"])
def test_images_outside_of_user_turns_move_to_a_user_turn(role):
    item = {"role": role, "content": [{"type": "text", "text": "see"}, PICTURE]}
    first, second, _ = parse([item, USER]).request.chat.messages
    assert [part.text for part in first.parts] == ["see"]
    assert (second.role, second.parts[0].media.detail) == ("user", "low")


@pytest.mark.parametrize(
    ("part", "kind", "url"),
    [
        (PICTURE, common.Media.KIND_IMAGE, "http://x/y.png"),
        ({"type": "input_image", "image_url": {"url": "u"}}, common.Media.KIND_IMAGE, "u"),
        ({"type": "image_url", "image_url": {"url": "u"}}, common.Media.KIND_IMAGE, "u"),
        ({"type": "video_url", "video_url": "u"}, common.Media.KIND_VIDEO, "u"),
        ({"type": "input_audio", "input_audio": {"data": "d"}}, common.Media.KIND_AUDIO, "d"),
    ],
)
def test_media_parts_are_those_of_chat_and_input_image(part, kind, url):
    parsed = parse([{"role": "user", "content": [part]}])
    (reference,) = parsed.media
    assert (reference.kind, reference.url) == (kind, url)
    assert reference.path == "input[0].content[0]"


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({}, "input[0].type"),
        ({"type": "web_search_call"}, "input[0].type"),
        ({"type": "item_reference", "id": "x"}, "input[0].type"),
        ({"role": "tool", "content": "x"}, "input[0].role"),
        ({"role": "user", "content": 7}, "input[0].content"),
        ({"role": "user", "content": [{"type": "smell"}]}, "input[0].content[0].type"),
        ({"role": "user", "content": [{"type": "input_file"}]}, "input[0].content[0]"),
        (
            {"role": "user", "content": [{"type": "input_image", "file_id": "f"}]},
            "input[0].content[0]",
        ),
        (
            {"role": "user", "content": [PICTURE | {"detail": "huge"}]},
            "input[0].content[0].detail",
        ),
        ({"type": "function_call", "call_id": "c"}, "input[0].name"),
        ({"type": "function_call_output", "output": "x"}, "input[0].call_id"),
        ({"type": "function_call_output", "call_id": "c", "output": 7}, "input[0].output"),
        ({"type": "compaction", "encrypted_content": "?"}, "input[0].encrypted_content"),
        ({"type": "compaction"}, "input[0].encrypted_content"),
        (None, "input[0]"),
    ],
)
def test_an_invalid_item_is_named(item, param):
    assert refusal([item, USER]).param == param


@pytest.mark.parametrize("given", ["", "  \n", [], [{"role": "user", "content": " "}]])
def test_empty_input_is_refused_unless_there_are_instructions(given):
    failure = refusal(given)
    assert failure.param == "input"
    assert failure.message.startswith("Request must include at least one non-empty message")
    assert parse(given, instructions="go").request.chat.messages[0].role == "system"


# ------------------------------------------------------------------------------ fields


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"background": True}, "background"),
        ({"truncation": "auto"}, "truncation"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"n": 2}, "n"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"max_output_tokens": -1}, "max_output_tokens"),
        ({"max_output_tokens": 10**30}, "max_output_tokens"),
        ({"max_tool_calls": 0}, "max_tool_calls"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"metadata": {str(n): "" for n in range(17)}}, "metadata"),
        ({"conversation": "c", "previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": ""}, "conversation"),
        ({"conversation": {"id": "x" * 513}}, "conversation"),
        ({"context_management": [{"type": "other"}]}, "context_management[0].type"),
        (
            {"context_management": [{"type": "compaction", "compact_threshold": 0}]},
            "context_management[0].compact_threshold",
        ),
        (
            {"context_management": [{"type": "compaction", "compact_threshold": 100_000_001}]},
            "context_management[0].compact_threshold",
        ),
        ({"context_management": [{"type": "compaction"}] * 2}, "context_management"),
        ({"xtc_threshold": 0.6}, "xtc_threshold"),
        ({"typical_p": 0}, "typical_p"),
        ({"thinking_budget_tokens": 9, "max_output_tokens": 8}, "thinking_budget_tokens"),
        ({"tools": [TOOL | {"name": ""}]}, "tools[0].name"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [TOOL | {"parameters": []}]}, "tools[0].parameters"),
        ({"tools": [TOOL] * 129}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "name": "g"}, "tools": [TOOL]}, "tool_choice"),
        ({"tool_choice": {"type": "web_search"}, "tools": [TOOL]}, "tool_choice"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format.type"),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format.schema"),
        (
            {"text": {"format": {"type": "json_schema", "schema": 5}}},
            "text.format.schema",
        ),
        (
            {"text": {"format": {"type": "json_schema", "schema": {}}}, "grammar": "root ::= x"},
            "text.format",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_unsupported_and_out_of_range_fields_are_refused_by_name(fields, param):
    assert refusal(**fields).param == param


def test_input_is_required_without_a_history():
    with pytest.raises(ServiceError) as caught:
        dialect.parse(b"{}", STAMP)
    assert caught.value.param == "input"


@pytest.mark.parametrize(
    "fields",
    [
        {"background": False, "truncation": "disabled", "n": 1},
        {"truncation": "", "service_tier": "auto", "store": False},
        {"context_management": [], "include": ["reasoning.encrypted_content"]},
        {"context_management": [{"type": "compaction", "compact_threshold": 100_000_000}]},
        {"metadata": {str(n): "" for n in range(16)}},
    ],
)
def test_refused_fields_with_neutral_values_are_accepted(fields):
    assert parse(**fields).request == parse().request


def test_all_built_in_tools_are_named_in_the_refusal():
    tools = [TOOL, {"type": "web_search"}, {"type": "mcp"}, {"type": "web_search"}]
    failure = refusal(tools=tools)
    assert failure.param == "tools"
    assert "mcp, web_search" in failure.message


def test_tools_are_nested_for_templates_with_keys_in_order():
    (tool,) = parse(tools=[TOOL]).request.chat.tools
    assert tool.name == "f"
    assert tool.json == (
        '{"type":"function","function":{"name":"f","description":"d","parameters":{"b":1,"a":2}}}'
    )


@pytest.mark.parametrize("tool", [{"parameters": None}, {}])
def test_a_tool_without_parameters_has_none_in_the_template(tool):
    (made,) = parse(tools=[{"type": "function", "name": "f", **tool}]).request.chat.tools
    assert made.json == '{"type":"function","function":{"name":"f"}}'


def space(*tools, name="s"):
    return {"type": "namespace", "name": name, "description": "d", "tools": list(tools)}


def test_a_function_of_a_namespace_can_be_forced_by_its_full_name():
    choice = {"type": "function", "name": "s__f"}
    chat = parse(tools=[TOOL, space(TOOL)], tool_choice=choice).request.chat
    assert [tool.name for tool in chat.tools] == ["f", "s__f"]
    assert chat.tool_choice.name == "s__f"


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        ([space(TOOL, {"type": "custom", "name": "c"})], "tools"),
        ([space(space(TOOL))], "tools"),
        ([TOOL, space(*[TOOL] * 128)], "tools"),
        ([space(TOOL, name="")], "tools[0].name"),
        ([TOOL, space(TOOL, TOOL | {"name": ""})], "tools[1].tools[1].name"),
        ([{"type": "namespace", "name": "s"}], "tools[0].tools"),
    ],
)
def test_a_namespace_contains_functions_only(tools, param):
    assert refusal(tools=tools).param == param


@pytest.mark.parametrize(
    ("choice", "mode"),
    [
        (None, pb.ToolChoice.MODE_AUTO),
        ("none", pb.ToolChoice.MODE_NONE),
        ("required", pb.ToolChoice.MODE_REQUIRED),
        ({"type": "function", "name": "f"}, pb.ToolChoice.MODE_NAMED),
        ({"type": "function", "function": {"name": "f"}}, pb.ToolChoice.MODE_NAMED),
    ],
)
def test_both_forms_of_a_tool_choice_are_accepted(choice, mode):
    assert parse(tools=[TOOL], tool_choice=choice).request.chat.tool_choice.mode == mode


@pytest.mark.parametrize(
    "form",
    [
        {"type": "json_schema", "name": "x", "schema": {"type": "object"}},
        {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
    ],
)
def test_a_schema_is_flat_or_nested_as_in_chat(form):
    parsed = parse(text={"format": form})
    assert parsed.request.grammar.json_schema == '{"type":"object"}'


def test_a_forced_choice_and_a_schema_exclude_each_other():
    form = {"type": "json_schema", "schema": {}}
    failure = refusal(text={"format": form}, tools=[TOOL], tool_choice="required")
    assert failure.param == "tool_choice"


def test_json_object_is_any_object_if_enabled():
    body = {"input": "x", "text": {"format": {"type": "json_object"}}}
    stamp = Stamp("resp_x", 0, 1, Policy(json_object=True))
    request = dialect.parse(json.dumps(body).encode(), stamp).request
    assert json.loads(request.grammar.json_schema) == {"type": "object"}


@pytest.mark.parametrize(
    ("fields", "limit"),
    [({}, None), ({"max_output_tokens": 7}, 7), ({"max_output_tokens": 7, "max_tokens": 5}, 5)],
)
def test_max_tokens_takes_precedence_over_max_output_tokens(fields, limit):
    request = parse(**fields).request
    assert (request.max_tokens if request.HasField("max_tokens") else None) == limit


@pytest.mark.parametrize("effort", ["none", "OFF", "disabled", "false", "0", False, 0])
def test_effort_none_disables_reasoning(effort):
    reasoning = parse(reasoning={"effort": effort}).request.reasoning
    assert reasoning.HasField("enabled") and not reasoning.enabled
    assert not reasoning.HasField("effort")


def test_other_efforts_are_forwarded_unchanged():
    reasoning = parse(reasoning={"effort": "xHigh"}).request.reasoning
    assert (reasoning.enabled, reasoning.effort) == (True, "xHigh")
    assert not parse(reasoning={"summary": "auto"}).request.reasoning.HasField("enabled")


@pytest.mark.parametrize(
    ("fields", "top"),
    [
        ({}, None),
        ({"top_logprobs": 0}, None),
        ({"top_logprobs": 3}, 3),
        ({"include": ["message.output_text.logprobs"]}, 0),
    ],
)
def test_logprobs_are_requested_by_number_or_include(fields, top):
    request = parse(**fields).request
    assert (request.logprobs.top if request.HasField("logprobs") else None) == top


def test_sampling_fields_are_those_of_chat():
    request = parse(top_k=5, seed=7, stop=["x"], chat_template_kwargs={"a": 1}).request
    assert (request.sampling.top_k, request.sampling.seed) == (5, 7)
    assert list(request.stop.strings) == ["x"]
    assert request.chat.template_kwargs_json == '{"a":1}'


def test_every_field_is_read_ignored_or_refused_and_none_twice():
    assert not wire.RESPONSE_IGNORED.keys() & wire.RESPONSE_REFUSED.keys()
    assert wire.RESPONSE_REFUSED.keys() <= set(wire.ResponseBody.__struct_fields__)
    assert not wire.RESPONSE_IGNORED.keys() & set(wire.ResponseBody.__struct_fields__)
    assert wire.COMPACT_REFUSED.keys() <= set(wire.CompactBody.__struct_fields__)


def test_a_response_repeats_request_fields():
    asked = {
        "instructions": "be brief",
        "tools": [TOOL],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "metadata": {"a": "b"},
        "temperature": 0.5,
        "top_p": 0.9,
        "max_output_tokens": 9,
        "parallel_tool_calls": False,
        "conversation": "c",
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"verbosity": "low"},
        "user": "u",
        "safety_identifier": "s",
        "prompt_cache_key": "k",
        "store": False,
    }
    renderer = dialect.renderer(parse(**asked), "m")
    shown = json.loads(renderer.feed(pb.Accepted()).split(b"data: ")[1].split(b"\n")[0])["response"]
    same = (
        "instructions",
        "metadata",
        "temperature",
        "top_p",
        "max_output_tokens",
        "store",
        "user",
    )
    for name in (
        *same,
        "parallel_tool_calls",
        "reasoning",
        "safety_identifier",
        "prompt_cache_key",
    ):
        assert shown[name] == asked[name], name
    assert shown["conversation"] == {"id": "c"}
    assert shown["tool_choice"] == {"type": "function", "name": "f"}
    assert shown["tools"] == [TOOL | {"strict": None}]
    assert shown["text"] == {"format": {"type": "text"}, "verbosity": "low"}
