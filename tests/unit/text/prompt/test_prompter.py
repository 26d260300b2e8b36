"""Prompts: the template's input, and the resulting tokens."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from shared.errors import ServiceError
from shared.pb import text_pb2 as pb
from tests.unit.text import tiny_tokenizer
from tests.unit.text.tiny_tokenizer import to_ids
from workers.text.prompt.prompter import Prompter

BOS_ID = 1
CHAT = (
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
SHOW_ALL = "{{ messages | tojson }}|{{ tools | tojson }}"


def make_prompter(template=CHAT, template_kwargs=None, **tokenizer):
    made = tiny_tokenizer.byte_level(template=template, **tokenizer)
    return Prompter(made, None, template_kwargs or {})


def text_message(role, *texts, **fields):
    return pb.Message(role=role, parts=[pb.Part(text=text) for text in texts], **fields)


def chat_request(*messages, reasoning=None, **fields):
    messages = messages or (text_message("user", "hi"),)
    fields.setdefault("add_generation_prompt", True)
    chat = pb.ChatPrompt(messages=messages, **fields)
    return pb.GenerateRequest(chat=chat, reasoning=reasoning)


def refusal(prompter, request):
    with pytest.raises(ServiceError) as caught:
        prompter.encode(request)
    return caught.value


# --------------------------------------------------------------- begin of sequence


@pytest.mark.parametrize("adds_bos", [True, False])
def test_a_template_writes_its_own_begin_of_sequence(adds_bos):
    ids = make_prompter(adds_bos=adds_bos).encode(chat_request())
    assert ids == [BOS_ID, *to_ids(b"[user]hi[assistant]")]


@pytest.mark.parametrize("text", ["hi", "<s>hi"])
def test_raw_text_gets_one_begin_of_sequence(text):
    ids = make_prompter(adds_bos=True).encode(pb.GenerateRequest(text=text))
    assert ids == [BOS_ID, *to_ids(b"hi")]


def test_raw_text_gets_no_begin_of_sequence_from_a_tokenizer_without_one():
    assert make_prompter().encode(pb.GenerateRequest(text="hi")) == to_ids(b"hi")


@pytest.mark.parametrize("adds_bos", [True, False])
def test_an_empty_text_is_a_begin_of_sequence(adds_bos):
    assert make_prompter(adds_bos=adds_bos).encode(pb.GenerateRequest(text="")) == [BOS_ID]


def test_special_tokens_in_raw_text_are_read_as_tokens():
    assert make_prompter().encode(pb.GenerateRequest(text="a</s>b")) == [
        *to_ids(b"a"),
        2,
        *to_ids(b"b"),
    ]


def test_token_ids_are_used_as_they_are():
    request = pb.GenerateRequest(tokens=pb.TokenIds(ids=[5, 4, 99, 2]))
    assert make_prompter(adds_bos=True).encode(request) == [5, 4, 99, 2]


def pieces(*values):
    return [
        pb.TokenizePiece(id=value) if isinstance(value, int) else pb.TokenizePiece(text=value)
        for value in values
    ]


def mixed(*values):
    return pb.GenerateRequest(pieces=pb.Pieces(pieces=pieces(*values)))


@pytest.mark.parametrize(
    ("values", "ids"),
    [
        (("hi", 5, "</s>"), [BOS_ID, *to_ids(b"hi"), 5, 2]),
        (("<s>hi", "<s>"), [BOS_ID, *to_ids(b"hi"), 1]),
        # An id in front is where the text begins.
        ((5, "hi"), [5, *to_ids(b"hi")]),
    ],
)
def test_mixed_text_and_ids_get_special_tokens_only_before_leading_text(values, ids):
    assert make_prompter(adds_bos=True).encode(mixed(*values)) == ids


@pytest.mark.parametrize(
    ("add", "parse", "ids"),
    [
        (False, True, [*to_ids(b"a"), 2, *to_ids(b"b")]),
        (True, True, [BOS_ID, *to_ids(b"a"), 2, *to_ids(b"b")]),
        (False, False, [*to_ids(b"a</s>"), *to_ids(b"b")]),
    ],
)
def test_special_tokens_are_added_and_read_as_asked(add, parse, ids):
    prompter = make_prompter(adds_bos=True)
    found = prompter.encode_pieces(pieces("a</s>", "b"), add_special=add, parse_special=parse)
    assert found == ids


def test_render_gives_the_text_of_every_kind_of_prompt():
    prompter = make_prompter(adds_bos=True)
    assert prompter.render(chat_request()) == "<s>[user]hi[assistant]"
    assert prompter.render(pb.GenerateRequest(text=" raw")) == " raw"
    tokens = pb.TokenIds(ids=to_ids("한".encode()))
    assert prompter.render(pb.GenerateRequest(tokens=tokens)) == "한"
    assert prompter.render(mixed("hi", 2)) == "<s>hi</s>"


# ------------------------------------------------------------- what the template sees


def test_parts_become_one_text_and_absent_content_an_empty_one():
    request = chat_request(text_message("user", "one ", "두"), text_message("assistant"))
    assert make_prompter().render(request) == "<s>[user]one 두[assistant][assistant]"


def test_an_assistant_turn_is_continued_without_a_new_one():
    request = chat_request(
        text_message("user", "hi"), text_message("assistant", "Well"), add_generation_prompt=False
    )
    assert make_prompter().render(request) == "<s>[user]hi[assistant]Well"


def test_a_prompt_may_end_with_the_users_turn():
    request = chat_request(text_message("user", "hi"), add_generation_prompt=False)
    assert make_prompter().render(request) == "<s>[user]hi"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ('{"city": "서울"}', {"city": "서울"}),
        ("{}", {}),
        ("", {}),
        # What is no object stays text: the template may print it.
        ('{"cut', '{"cut'),
        ("[1]", "[1]"),
        ('"word"', '"word"'),
    ],
)
def test_arguments_of_earlier_calls_reach_the_template_as_a_mapping(text, seen):
    call = pb.ToolCall(id="call_1", name="weather", arguments=text)
    request = chat_request(
        text_message("user", "hi"),
        text_message("assistant", tool_calls=[call]),
        text_message("tool", "20 °C", tool_call_id="call_1", name="weather"),
    )
    shown = json.loads(make_prompter(SHOW_ALL).render(request).split("|")[0])
    assert shown[1]["tool_calls"] == [
        {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": seen}}
    ]
    assert shown[2] == {
        "role": "tool",
        "content": "20 °C",
        "tool_call_id": "call_1",
        "name": "weather",
    }
    assert shown[0] == {"role": "user", "content": "hi"}


def test_the_reasoning_of_an_earlier_turn_reaches_the_template():
    request = chat_request(text_message("assistant", "a", reasoning="because"))
    shown = json.loads(make_prompter(SHOW_ALL).render(request).split("|")[0])
    assert shown[0]["reasoning_content"] == "because"


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (pb.ToolChoice(), ["one", "two"]),
        (pb.ToolChoice(mode=pb.ToolChoice.MODE_AUTO), ["one", "two"]),
        (pb.ToolChoice(mode=pb.ToolChoice.MODE_REQUIRED), ["one", "two"]),
        (pb.ToolChoice(mode=pb.ToolChoice.MODE_NONE), None),
        (pb.ToolChoice(mode=pb.ToolChoice.MODE_NAMED, name="two"), ["two"]),
    ],
)
def test_a_template_sees_the_tools_that_may_be_called(choice, names):
    tools = [
        pb.Tool(name=name, json=json.dumps({"type": "function", "function": {"name": name}}))
        for name in ("one", "two")
    ]
    shown = json.loads(
        make_prompter(SHOW_ALL).render(chat_request(tools=tools, tool_choice=choice)).split("|")[1]
    )
    assert shown == names or [tool["function"]["name"] for tool in shown] == names


def test_a_template_file_replaces_the_models_own():
    prompter = Prompter(tiny_tokenizer.byte_level(template=CHAT), "other", {})
    assert prompter.template == "other"
    assert prompter.render(chat_request()) == "other"


# ------------------------------------------------------------------------ variables


@pytest.mark.parametrize(
    ("reasoning", "kwargs", "shown"),
    [
        ({"enabled": True}, "", "on"),
        ({"enabled": False}, "", "off"),
        ({}, '{"enable_thinking": true}', "on"),
        ({"enabled": True}, '{"thinking": false}', "off"),
        ({}, "", "off"),
    ],
)
def test_enable_thinking_reaches_templates_that_name_it_thinking(reasoning, kwargs, shown):
    prompter = make_prompter("{% if thinking %}on{% else %}off{% endif %}")
    asked = chat_request(reasoning=pb.Reasoning(**reasoning), template_kwargs_json=kwargs)
    assert prompter.render(asked) == shown


VARIABLES = "{{ enable_thinking }},{{ reasoning_effort }},{{ extra }}"


@pytest.mark.parametrize(
    ("server", "reasoning", "request_json", "shown"),
    [
        ({}, {}, "", ",,"),
        ({"extra": 1, "enable_thinking": False}, {}, "", "False,,1"),
        ({"extra": 1}, {}, '{"extra": 2}', ",,2"),
        # What the server says stays where the request is silent.
        ({"extra": 1, "enable_thinking": True}, {}, '{"extra": 2}', "True,,2"),
        ({"enable_thinking": True}, {"enabled": False}, "", "False,,"),
        ({}, {"enabled": True}, '{"enable_thinking": false}', "False,,"),
        ({}, {"effort": "low"}, "", ",low,"),
        ({}, {"effort": "low"}, '{"reasoning_effort": "high"}', ",high,"),
        ({"reasoning_effort": "medium"}, {"effort": "low"}, "", ",medium,"),
    ],
)
def test_a_requests_variables_win_over_the_servers(server, reasoning, request_json, shown):
    request = chat_request(
        reasoning=pb.Reasoning(**reasoning) if reasoning else None,
        template_kwargs_json=request_json,
    )
    assert make_prompter(VARIABLES, server).render(request) == shown


@pytest.mark.parametrize(
    ("kwargs", "asked", "shown"),
    [
        ({}, None, "low"),
        ({}, pb.Reasoning(effort="high"), "high"),
        ({"reasoning_effort": "medium"}, None, "medium"),
    ],
)
def test_the_reasoning_effort_has_a_server_default(kwargs, asked, shown):
    made = tiny_tokenizer.byte_level(template="{{ reasoning_effort }}")
    prompter = Prompter(made, None, kwargs, effort="low")
    assert prompter.render(chat_request(reasoning=asked)) == shown


def test_the_templates_clock_is_the_requests():
    prompter = make_prompter("{{ strftime_now('%Y-%m-%d %H:%M') }}")
    for moment_s in (1_600_000_000, 1_700_000_000, 1_600_000_000):
        request = chat_request(template_time_unix_s=moment_s)
        local = datetime.fromtimestamp(moment_s, UTC).astimezone()
        assert prompter.render(request) == local.strftime("%Y-%m-%d %H:%M")


def test_the_default_template_is_used_without_tools():
    tokenizer = tiny_tokenizer.byte_level(template={"tool_use": "tools", "default": "plain"})
    prompter = Prompter(tokenizer, None, {})
    assert prompter.template == "plain"
    assert prompter.render(chat_request()) == "plain"


# -------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{{ raise_exception('Roles must alternate') }}", "Roles must alternate"),
        ("{{ messages[5].content }}", "no element 5"),
        ("{{ messages[0].role + 1 }}", ""),
        ("{{ 1 / 0 }}", ""),
        ("{{ range(10 ** 9) }}", ""),
        ("{% for %}", ""),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", ""),
        ("{{ ''.__class__.__mro__ }}", ""),
    ],
)
def test_a_template_failure_is_an_invalid_request_with_the_reason(template, says):
    error = refusal(make_prompter(template), chat_request())
    assert (error.code, error.param) == ("invalid_request", "messages")
    assert says in error.message
    assert "\n" not in error.message
    assert len(error.message) < 300


@pytest.mark.parametrize("kwargs_json", ["[1]", '{"a', "7"])
def test_template_variables_must_be_a_json_object(kwargs_json):
    error = refusal(make_prompter(), chat_request(template_kwargs_json=kwargs_json))
    assert error.code == "invalid_request"


@pytest.mark.parametrize("name", ["messages", "tokenize", "tools", "conversation"])
def test_reserved_template_variables_are_refused_by_name(name):
    error = refusal(make_prompter(), chat_request(template_kwargs_json=f'{{"{name}": true}}'))
    assert (error.code, error.param) == ("invalid_request", f"chat_template_kwargs.{name}")


def test_a_model_without_a_template_refuses_only_conversations():
    prompter = make_prompter(None)
    error = refusal(prompter, chat_request())
    assert error.code == "invalid_request"
    assert "chat template" in error.message
    assert prompter.template == ""
    assert prompter.encode(pb.GenerateRequest(text="hi")) == to_ids(b"hi")


# ------------------------------------------------------------------------- namespace


def test_template_tools_media_and_session_key_have_separate_cache_namespaces():
    base = chat_request()
    named = pb.ToolChoice(mode=pb.ToolChoice.MODE_NAMED, name="f")
    others = {
        "variables": chat_request(template_kwargs_json='{"extra": 1}'),
        "tools": chat_request(tools=[pb.Tool(name="f", json="{}")]),
        "choice": chat_request(tool_choice=named),
        "session": chat_request(),
        "media": chat_request(pb.Message(role="user", parts=[pb.Part(media={"data": b"\x89PNG"})])),
    }
    others["session"].cache.session_key = "me"
    prompter = make_prompter()
    keys = {name: prompter.namespace(request) for name, request in others.items()}
    keys["base"] = prompter.namespace(base)
    keys["template"] = make_prompter("x").namespace(base)
    assert len(set(keys.values())) == len(keys)


def test_other_messages_and_reordered_variables_share_a_cache_namespace():
    one = chat_request(template_kwargs_json='{"a": 1, "b": 2}')
    two = chat_request(text_message("user", "other"), template_kwargs_json='{"b":2,"a":1}')
    prompter = make_prompter()
    assert prompter.namespace(one) == prompter.namespace(two)
    assert make_prompter(template_kwargs={"a": 1, "b": 2}).namespace(chat_request()) == (
        prompter.namespace(one)
    )
