"""Settings that change how bodies are read, in every dialect that they concern."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.anthropic import messages
from gateway.dialects.base import Policy, Stamp
from gateway.dialects.llama import native
from gateway.dialects.openai import chat, completions
from gateway.dialects.openai.responses import dialect as responses
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb
from tests.spec import read_events

ASK = [{"role": "user", "content": "hi"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
CHAT_TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}
FLAT_TOOL = {"type": "function", "name": "f", "parameters": {}}
OWN_TOOLS = ["web_search", "web_search_preview", "file_search", "mcp", "image_generation"]

# A body of each dialect, and the field that names the session.
SESSIONS = [
    (chat, {"messages": ASK}, "prompt_cache_key"),
    (chat, {"messages": ASK}, "user"),
    (completions, {"prompt": "hi"}, "prompt_cache_key"),
    (responses, {"input": "hi"}, "prompt_cache_key"),
    (messages, {"messages": ASK, "max_tokens": 9}, "metadata"),
]


def parse(module, body: dict[str, Any], policy: Policy, principal: str = ""):
    return module.parse(json.dumps(body).encode(), Stamp("x", 0, 1, policy, principal))


def bucket(module, body, field="", session="", **options) -> str:
    """Return what a request must share with another one, besides its prompt, to share its cache."""
    if field == "metadata":
        body |= {field: {"user_id": session}}
    elif field:
        body |= {field: session}
    policy = Policy(caches_by_session=options.get("by_session", False))
    return parse(module, body, policy, options.get("key", "")).request.cache.session_key


@pytest.mark.parametrize(("module", "body", "field"), SESSIONS)
def test_sessions_of_one_key_share_cached_prompts_unless_the_scope_is_the_session(
    module, body, field
):
    def of(session, **options):
        return bucket(module, dict(body), field, session, **options)

    assert of("s1", key="k") == of("s2", key="k") == of("", key="k")
    assert of("s1") == of("s2") == ""
    assert of("s1", key="k") != of("s1", key="other")
    apart = {of(s, key=k, by_session=True) for s in ("", "s1", "s2") for k in ("", "k", "other")}
    assert len(apart) == 9


def test_native_requests_share_with_those_of_their_key():
    assert bucket(native, {"prompt": "x"}, key="k") == bucket(chat, {"messages": ASK}, key="k")


@pytest.mark.parametrize(
    ("form", "schema"),
    [
        ({}, {"type": "object"}),
        ({"schema": SCHEMA}, SCHEMA),
        ({"value": SCHEMA}, SCHEMA),
        ({"schema": None, "value": SCHEMA}, SCHEMA),
    ],
)
@pytest.mark.parametrize("module", [chat, completions, responses])
def test_the_schema_of_a_json_object_binds(module, form, schema):
    form = {"type": "json_object", **form}
    body = {
        chat: {"messages": ASK, "response_format": form},
        completions: {"prompt": "hi", "response_format": form},
        responses: {"input": "hi", "text": {"format": form}},
    }[module]
    grammar = parse(module, body, Policy(json_object=True)).request.grammar
    assert json.loads(grammar.json_schema) == schema
    with pytest.raises(ServiceError, match="--json-object"):
        parse(module, body, Policy())


def forced(module, choice):
    return {
        chat: {
            "messages": ASK,
            "tools": [CHAT_TOOL],
            "tool_choice": choice,
            "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}},
        },
        responses: {
            "input": "hi",
            "tools": [FLAT_TOOL],
            "tool_choice": choice,
            "text": {"format": {"type": "json_schema", "schema": SCHEMA}},
        },
        messages: {
            "messages": ASK,
            "max_tokens": 9,
            "tools": [{"name": "f", "input_schema": {}}],
            "tool_choice": {"type": {"required": "any"}.get(choice, choice)},
            "output_format": {"type": "json_schema", "schema": SCHEMA},
        },
    }[module]


@pytest.mark.parametrize("module", [chat, responses, messages])
def test_a_forced_choice_with_a_schema_is_refused_or_forces_the_call(module):
    with pytest.raises(ServiceError, match="--forced-choice-with-schema") as caught:
        parse(module, forced(module, "required"), Policy())
    assert caught.value.param == "tool_choice"
    request = parse(module, forced(module, "required"), Policy(forced_call_wins=True)).request
    assert request.chat.tools and not request.HasField("grammar")
    for policy in (Policy(), Policy(forced_call_wins=True)):
        assert parse(module, forced(module, "auto"), policy).request.HasField("grammar")


def test_tools_that_openai_runs_are_refused_by_name_or_left_out():
    tools = [FLAT_TOOL, *({"type": kind} for kind in OWN_TOOLS)]
    with pytest.raises(ServiceError, match="--builtin-tools") as caught:
        parse(responses, {"input": "hi", "tools": tools}, Policy())
    assert all(kind in caught.value.message for kind in OWN_TOOLS)
    policy = Policy(drops_builtin_tools=True)
    parsed = parse(responses, {"input": "hi", "tools": tools}, policy)
    assert [tool.label for tool in parsed.tools] == ["f"]
    custom = {"type": "custom", "name": "c"}
    with pytest.raises(ServiceError, match="custom") as caught:
        parse(responses, {"input": "hi", "tools": [custom, {"type": "mcp"}]}, policy)
    assert "--builtin-tools" not in caught.value.message


@pytest.mark.parametrize("has_delta", [True, False])
def test_chunks_of_completions_have_a_delta_or_none(has_delta):
    policy = Policy(completions_delta=has_delta)
    stream = completions.renderer(parse(completions, {"prompt": "hi", "stream": True}, policy), "m")
    events = [
        pb.Event(delta=pb.Delta(text="a")),
        pb.Event(finished=pb.Finished()),
        pb.Event(failed=pb.Failed()),
    ]
    chunks = [chunk for event in events for chunk in read_events(stream.feed(event).decode())]
    choices = [chunk["choices"][0] for chunk in chunks]
    assert len(choices) == 3
    assert all(("delta" in choice) is has_delta for choice in choices)
