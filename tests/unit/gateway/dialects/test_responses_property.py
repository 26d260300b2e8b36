"""Properties of all responses."""

from __future__ import annotations

import json

import msgspec
import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.dialects.base import Stamp
from gateway.dialects.openai.responses import dialect, wire
from gateway.dialects.openai.responses.capsule import seal
from gateway.dialects.openai.responses.stream import ResponseStream
from shared.pb import text_pb2 as pb
from tests.response_stream import ResponseReader, read_response
from tests.unit.gateway.dialects.drawing import answers, fail_at, refusal, texts, values, whole

STAMP = Stamp("resp_x", 1_715_000_000_000_000_000, 1)
asked = st.fixed_dictionaries(
    {},
    optional={
        "max_tool_calls": st.integers(1, 2),
        "top_logprobs": st.just(2),
        "instructions": st.just("be brief"),
        "conversation": st.just({"id": "c"}),
        "metadata": st.just({"a": "b"}),
        "include": st.just(["reasoning.encrypted_content"]),
        "tools": st.just([{"type": "function", "name": "f", "parameters": {"a": {}}}]),
        "text": st.just({"format": {"type": "json_schema", "schema": {"a": {}}}}),
    },
)


def parse(**fields):
    # JSON on several lines must be rendered on one line in events.
    return dialect.parse(json.dumps({"input": "x", **fields}, indent=1).encode(), STAMP)


def stream(parsed, items) -> bytes:
    return b"".join(map(dialect.renderer(parsed, "m").feed, items))


@given(answers(), asked)
def test_a_stream_is_well_formed_and_ends_with_the_whole_response(items, fields):
    parsed = parse(**fields)
    streamed = read_response(stream(parsed, items))
    assert streamed == json.loads(dialect.body(parsed, "m", whole(items)))
    calls = [item for item in streamed["output"] if item["type"] == "function_call"]
    assert len(calls) <= fields.get("max_tool_calls", 4)


@given(answers(), asked)
def test_output_sent_back_as_input_has_the_same_text(items, fields):
    output = json.loads(dialect.body(parse(**fields), "m", whole(items)))["output"]
    back = parse(
        input=[{"role": "user", "content": "x"}, *output, {"role": "user", "content": "y"}]
    )
    turns = [turn for turn in back.request.chat.messages if turn.role == "assistant"]
    thoughts = [item["content"][0]["text"] for item in output if item["type"] == "reasoning"]
    assert "\n".join(turn.reasoning for turn in turns if turn.reasoning) == "\n".join(thoughts)
    said = [item["content"][0]["text"] for item in output if item["type"] == "message"]
    assert "".join(part.text for turn in turns for part in turn.parts) == "".join(said)
    calls = [call for turn in turns for call in turn.tool_calls]
    wanted = [item for item in output if item["type"] == "function_call"]
    assert [(c.id, c.arguments) for c in calls] == [(i["call_id"], i["arguments"]) for i in wanted]


@given(answers(), asked, st.integers(0, 30), st.booleans())
def test_a_failure_at_any_point_sends_an_error_and_a_failed_response(items, fields, cut, early):
    reader = ResponseReader()
    events = fail_at(items, cut)
    # A comment may open a stream before Accepted.
    reader.feed(stream(parse(**fields), events[-1:] if early else events))
    assert reader.state == "done"
    assert reader.kinds[-2:] == ["error", "response.failed"]
    assert reader.response["status"] == "failed"
    assert reader.response["error"] == {"code": "server_error", "message": "m"}


@given(answers(), asked, st.integers(0, 30))
def test_a_cancel_at_any_point_keeps_the_output_so_far(items, fields, cut):
    made = ResponseStream(parse(**fields), "m")
    reader = ResponseReader()
    reader.feed(b"".join(map(made.feed, items[:-1][: cut + 1])))
    told = json.loads(orjson.dumps(made.cancel()))
    failed = pb.Failed(error={"code": "cancelled", "message": "m"})
    reader.feed(made.feed(pb.Event(failed=failed)))
    assert reader.response == told
    assert told["status"] == "cancelled"
    assert told["error"] is None


@given(answers(), asked, st.data())
def test_pings_are_valid_anywhere_but_after_the_end(items, fields, data):
    renderer = dialect.renderer(parse(**fields), "m")
    reader = ResponseReader()
    given = 0
    for item in items:
        for _ in range(data.draw(st.integers(0, 2))):
            reader.feed(renderer.ping())
            given += 1
        reader.feed(renderer.feed(item))
    assert renderer.ping() == b""
    assert reader.close()["output"] == reader.items
    # The first ping may have opened the stream.
    assert given - 1 <= reader.pings <= reader.comments == given


@given(answers())
def test_item_ids_depend_on_request_and_index(items):
    once, again = (read_response(stream(parse(), items)) for _ in range(2))
    assert once == again
    ids = [item["id"] for item in once["output"]]
    assert len(set(ids)) == len(ids)


# ------------------------------------------------------------------------------ bodies

names = st.sampled_from(sorted(wire.ResponseBody.__struct_fields__))
part_kinds = st.sampled_from(
    [
        *("input_text", "output_text", "text", "refusal", "input_image", "image_url", "video_url"),
        *("input_audio", "input_file", "x"),
    ]
)
parts = st.fixed_dictionaries(
    {"type": part_kinds},
    optional={
        "text": texts | values,
        "refusal": texts,
        "image_url": texts | st.fixed_dictionaries({"url": texts}) | values,
        "video_url": texts,
        "input_audio": st.fixed_dictionaries({"data": texts}),
        "detail": texts,
    },
)
item_kinds = st.sampled_from(
    [
        *("message", "function_call", "function_call_output", "reasoning", "compaction"),
        *("web_search_call", "item_reference", "x"),
    ]
)
thoughts = st.fixed_dictionaries({"type": st.just("reasoning_text"), "text": texts})
capsules = st.lists(values, max_size=2).map(
    lambda items: seal("s", [msgspec.Raw(json.dumps(item).encode()) for item in items])
)
items = st.fixed_dictionaries(
    {},
    optional={
        "type": item_kinds,
        "role": st.sampled_from(["user", "assistant", "system", "developer", "tool"]),
        "content": texts | st.lists(parts | thoughts, max_size=3) | values,
        "call_id": texts,
        "name": texts,
        "arguments": texts | values,
        "output": texts | st.lists(parts, max_size=2) | values,
        "encrypted_content": capsules | texts,
    },
)


def refuse_or_parse(body: bytes) -> None:
    failure = refusal(lambda data: dialect.parse(data, STAMP), body)
    assert failure is None or failure.code == "invalid_request"


@given(values)
def test_any_json_is_parsed_or_refused(value):
    refuse_or_parse(json.dumps(value).encode())


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(items, max_size=5), st.dictionaries(names, values, max_size=3))
def test_any_items_and_fields_are_parsed_or_refused(given_items, fields):
    refuse_or_parse(json.dumps({"input": given_items} | fields).encode())


@given(names, values)
def test_one_odd_field_in_a_good_body_is_parsed_or_refused_by_name(name, value):
    body = json.dumps({"input": "x"} | {name: value}, indent=1).encode()
    failure = refusal(lambda data: dialect.parse(data, STAMP), body)
    if failure is not None:
        assert failure.code == "invalid_request"
        named = f"{failure.param} {failure.message}"
        assert name in named or "JSON" in named
    else:
        # Every parsed body can be rendered.
        parsed = dialect.parse(body, STAMP)
        read_response(stream(parsed, [pb.Accepted(), pb.Event(finished=pb.Finished())]))


@given(
    st.sampled_from(sorted(wire.RESPONSE_IGNORED)) | texts.map(lambda text: f"x_{text}"),
    values.filter(lambda value: "Infinity" not in json.dumps(value)),
)
def test_unknown_and_ignored_fields_have_no_effect(name, value):
    assert parse(**{name: value}).request == parse().request


@given(st.binary(max_size=60))
def test_any_bytes_are_refused(data):
    refuse_or_parse(data)


@given(st.binary(max_size=10))
def test_any_bytes_inside_a_string_are_parsed_or_refused(data):
    text = b'[{"role":"user","content":[{"type":"input_text","text":"x' + data + b'"}]}]'
    refuse_or_parse(b'{"input":' + text + b',"zz":"' + data + b'"}')


@pytest.mark.parametrize("depth", [40, 200, 400, 2000])
def test_nesting_is_limited_everywhere(depth):
    text = "[" * depth + "]" * depth
    templates = (
        '{"input":[{"role":"user","content":HERE}]}',
        '{"input":[{"type":"function_call","call_id":"c","name":"f","arguments":HERE}]}',
        '{"input":[{"type":"function_call_output","call_id":"c","output":[{"type":"x","y":HERE}]}]}',
        '{"input":"x","tools":[{"type":"function","name":"f","parameters":HERE}]}',
        '{"input":"x","text":{"format":{"type":"json_schema","schema":HERE}}}',
        '{"input":"x","tool_choice":HERE}',
    )
    for template in templates:
        refuse_or_parse(template.replace("HERE", text).encode())
        refuse_or_parse(template.replace("HERE", f'{{"a":{text}}}').encode())
