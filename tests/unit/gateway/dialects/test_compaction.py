"""Cutting a history, kept items, and the replay of a compaction."""

from __future__ import annotations

import base64
import json

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.base import Stamp
from gateway.dialects.openai.responses import compaction, wire
from gateway.dialects.openai.responses.capsule import expand, seal
from gateway.dialects.openai.responses.item import parse_items
from gateway.dialects.openai.responses.request import make_prompt
from shared.errors import ServiceError

STAMP = Stamp("resp_x", 1_715_000_000_000_000_000, 1)
USER = {"role": "user", "content": "u"}
SAID = {"role": "assistant", "content": "a"}
SYSTEM = {"role": "system", "content": "s"}
THOUGHT = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "t"}]}


def call(name):
    return {"type": "function_call", "call_id": name, "name": "f", "arguments": "{}"}


def output(name):
    return {"type": "function_call_output", "call_id": name, "output": "o"}


def raw(*items):
    return [msgspec.Raw(json.dumps(item).encode()) for item in items]


def plain(items):
    return [json.loads(bytes(item)) for item in items]


def name_path(index):
    return f"input[{index}]"


LOOP = [USER, call("1"), output("1"), call("2"), call("3"), output("2"), output("3"), SAID]


@pytest.mark.parametrize(
    ("items", "cuts"),
    [
        ([], [0]),
        ([USER], [0, 1]),
        ([USER, SAID, USER, SAID], [0, 2, 4]),
        (LOOP, [0, 3, 7, 8]),
        # A call is never separated from its output.
        ([USER, SAID, USER, call("1")], [0, 2]),
        ([USER, call("1"), USER, output("1"), SAID], [0, 4, 5]),
    ],
)
def test_a_history_is_cut_before_user_turns_and_after_answered_calls(items, cuts):
    assert compaction.list_cuts(raw(*items)) == cuts


def test_the_last_user_message_is_kept_wherever_the_cut_is():
    division = compaction.divide(raw(*LOOP), 7)
    assert plain(division.kept) == [USER, SAID]
    assert plain(division.summarised) == LOOP[:7]
    assert division.gone == 6
    division = compaction.divide(raw(USER, SAID, USER), 2)
    assert (plain(division.kept), division.gone) == ([USER], 2)
    assert compaction.divide(raw(USER), 1).gone == 0
    assert compaction.divide(raw(SAID, SAID), 1).gone == 1


turns = st.sampled_from(
    [
        [USER],
        [SAID],
        [USER, SAID],
        [call("x"), output("x")],
        [THOUGHT, call("x"), call("y"), output("y"), output("x")],
    ]
)


@given(st.lists(turns, max_size=8), st.booleans())
def test_no_cut_separates_a_call_from_its_output(parts, waits):
    items = [dict(item) for part in parts for item in part]
    # Call ids are unique per turn.
    for index, item in enumerate(items):
        if "call_id" in item:
            group = sum(1 for other in items[:index] if other.get("role"))
            item["call_id"] += str(group)
    if waits:
        items.append(call("waits"))
    for cut in compaction.list_cuts(raw(*items)):
        head, tail = items[:cut], items[cut:]
        called = [i["call_id"] for i in head if i.get("type") == "function_call"]
        answered = [i["call_id"] for i in head if i.get("type") == "function_call_output"]
        assert sorted(called) == sorted(answered)
        division = compaction.divide(raw(*items), cut)
        kept = plain(division.kept)
        users = [i for i in items if i == USER]
        assert not users or USER in kept
        assert kept[-len(tail) :] == tail or not tail


def test_a_compaction_replaces_all_but_system_messages():
    sealed = seal("the story", raw(USER, call("1"), output("1")))
    item = {"type": "compaction", "encrypted_content": sealed}
    items = raw(SYSTEM, USER, SAID, {"type": "compaction", "encrypted_content": "x"}, item, SAID)
    replayed, name = expand(items, name_path)
    first, question, handoff, *kept, last = plain(replayed)
    assert (first, kept, last) == (SYSTEM, [USER, call("1"), output("1")], SAID)
    assert question["role"] == "user"
    assert handoff == {
        "type": "message",
        "role": "assistant",
        "content": "Conversation handoff:\nthe story",
    }
    assert [name(i) for i in (0, 1, 5, 6)] == ["input[0]", "input[4]", "input[4]", "input[5]"]


@pytest.mark.parametrize(
    ("kept", "roles"),
    [([USER, SAID], ["user", "assistant", "user", "assistant"]), ([SAID], ["user", "assistant"])],
)
def test_user_and_assistant_alternate_in_a_replayed_history(kept, roles):
    item = {"type": "compaction", "encrypted_content": seal("s", raw(*kept))}
    replayed, name = expand(raw(item), name_path)
    assert [turn.role for turn in parse_items(replayed, [], name)] == roles


def encode(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


CAPSULE = {"version": 1, "summary": "s", "items": []}


@pytest.mark.parametrize(
    "sealed",
    [
        "",
        "not base64!",
        "ä",
        encode([]),
        encode(CAPSULE | {"version": 2}),
        encode(CAPSULE | {"items": [{"type": "compaction", "encrypted_content": "x"}]}),
        encode(CAPSULE)[:-5],
        base64.urlsafe_b64encode(b"[" * 10_000).decode(),
        base64.urlsafe_b64encode(b"\xff\xfe").decode(),
    ],
)
def test_a_foreign_capsule_is_refused_with_its_path(sealed):
    item = {"type": "compaction", "encrypted_content": sealed}
    with pytest.raises(ServiceError) as caught:
        expand(raw(USER, item), name_path)
    assert caught.value.param == "input[1].encrypted_content"


def test_items_inside_a_capsule_are_parsed_like_others():
    item = {"type": "compaction", "encrypted_content": seal("s", raw({"type": "x"}))}
    fields = wire.ResponseBody(input=raw(item))
    with pytest.raises(ServiceError) as caught:
        make_prompt(fields, raw(item), STAMP, [])
    assert caught.value.param == "input[0].type"


def test_kept_items_have_ids_status_and_parts():
    said = {"role": "assistant", "content": "a", "id": "mine", "type": None, "status": None}
    items = [SYSTEM, said, THOUGHT, call("1"), USER]
    shown = json.loads(orjson.dumps(compaction.show_items(raw(*items), "r")))
    assert [item["type"] for item in shown] == [
        "message",
        "message",
        "reasoning",
        "function_call",
        "message",
    ]
    assert all(item["status"] == "completed" for item in shown)
    assert shown[0]["content"] == [{"type": "input_text", "text": "s"}]
    assert (shown[1]["id"], shown[1]["content"][0]["type"]) == ("mine", "output_text")
    assert shown[2]["summary"] == []
    assert len({item["id"] for item in shown}) == len(shown)


def test_a_summary_is_greedy_and_without_reasoning():
    body = wire.CompactBody(input="x", thinking_budget_tokens=5, stop=["x"])
    request = compaction.ask_summary(body, raw(USER, SAID), STAMP, 77)
    assert (request.sampling.temperature, request.max_tokens) == (0.0, 77)
    assert request.reasoning.HasField("enabled") and not request.reasoning.enabled
    assert not request.stop.strings
    assert [message.role for message in request.chat.messages] == ["user", "assistant", "user"]
    body = wire.CompactBody(input="x", temperature=0.5)
    assert compaction.ask_summary(body, raw(USER), STAMP, 77).sampling.temperature == 0.5
