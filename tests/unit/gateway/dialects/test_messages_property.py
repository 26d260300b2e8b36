"""Properties of all messages."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.dialects.anthropic import messages, wire
from gateway.dialects.base import Stamp
from gateway.generation.fold import Item
from shared.pb import text_pb2 as pb
from tests.message_stream import MessageReader, read_message
from tests.unit.gateway.dialects.drawing import answers, fail_at, refusal, texts, values, whole

STAMP = Stamp("msg_x", 1_715_000_000_000_000_000, 1)
THINKING = [
    None,
    {"type": "disabled"},
    {"type": "enabled", "budget_tokens": 0},
    {"type": "adaptive"},
    {"type": "adaptive", "display": "omitted"},
]


def count(items: list[Item]) -> list[Item]:
    """Make the prompt counts at the end of an answer equal those at its start."""
    accepted, end = items[0], items[-1]
    assert isinstance(accepted, pb.Accepted)
    assert isinstance(end, pb.Event)
    end.finished.usage.prompt_tokens = accepted.prompt_tokens
    return items


counted = answers().map(count)
asked = st.fixed_dictionaries(
    {"thinking": st.sampled_from(THINKING)}, optional={"max_tokens": st.just(0)}
)
# Some combinations of pieces are JSON objects, most are not.
arguments = st.lists(st.sampled_from(["{", "}", ' {"a"', ": 1", "}", "[1]", "\n", '"', "1e999"]))


def parse(**fields):
    body = {"messages": [{"role": "user", "content": "x"}], **fields}
    return messages.parse(json.dumps(body).encode(), STAMP)


def stream(parsed, items) -> bytes:
    return b"".join(map(messages.renderer(parsed, "m").feed, items))


def call(pieces) -> list[pb.Event]:
    """Return the events of one tool call with these arguments."""
    start = pb.BlockStart(kind=pb.BlockStart.KIND_TOOL_CALL, tool_call_id="call_0", tool_name="f")
    deltas = [pb.Event(delta=pb.Delta(text=piece)) for piece in pieces]
    end = [pb.Event(block_stop=pb.BlockStop()), pb.Event(finished=pb.Finished())]
    return [pb.Event(block_start=start), *deltas, *end]


def as_object(text: str) -> dict:
    """Return the arguments that a client reads from a stream."""
    with contextlib.suppress(ValueError):
        value = json.loads(text)
        if isinstance(value, dict):
            return value
    return {}


@given(counted, asked)
def test_a_stream_is_well_formed_and_equals_the_whole_message(items, fields):
    parsed = parse(**fields)
    streamed = read_message(stream(parsed, items))
    body = json.loads(messages.body(parsed, "m", whole(items)))
    for block in streamed["content"]:
        if block["type"] == "tool_use":
            block["input"] = as_object(block.pop("arguments"))
    assert streamed["content"] == body["content"]
    assert streamed["stop_reason"] == body["stop_reason"]
    assert body["content"] or fields.get("max_tokens") == 0
    assert streamed.keys() == body.keys()
    assert streamed["usage"].keys() == body["usage"].keys()


@given(counted, asked, st.data())
def test_pings_are_valid_between_start_and_end(items, fields, data):
    renderer = messages.renderer(parse(**fields), "m")
    reader = MessageReader()
    for item in items:
        for _ in range(data.draw(st.integers(0, 2))):
            reader.feed(renderer.ping())
        reader.feed(renderer.feed(item))
    assert renderer.ping() == b""
    assert reader.state == "done"


@given(answers(), asked, st.integers(0, 30))
def test_a_failure_at_any_point_closes_the_block_and_is_the_last_event(items, cut_at, cut):
    renderer = messages.renderer(parse(**cut_at), "m")
    reader = MessageReader()
    reader.feed(b"".join(map(renderer.feed, fail_at(items, cut))))
    assert reader.state == "failed"
    assert reader.error == {"type": "api_error", "message": "m"}
    assert renderer.ping() == b""


@given(arguments)
def test_arguments_that_are_not_an_object_become_an_empty_one(pieces):
    items = [pb.Accepted(), *call(pieces)]
    parsed = parse()
    (streamed,) = read_message(stream(parsed, items))["content"]
    (block,) = json.loads(messages.body(parsed, "m", whole(items)))["content"]
    text = streamed["arguments"]
    assert text in ("", "".join(pieces))
    assert text == "" or text.lstrip()[0] == "{"
    if "1e999" not in text:
        assert block["input"] == as_object(text)
    assert isinstance(block["input"], dict)


@given(texts, st.booleans())
def test_reasoning_is_restored_from_text_or_signature(thought, omitted):
    display = "omitted" if omitted else "summarized"
    start = pb.BlockStart(kind=pb.BlockStart.KIND_REASONING)
    items = [
        pb.Accepted(),
        pb.Event(block_start=start),
        pb.Event(delta=pb.Delta(text=thought)),
        pb.Event(block_stop=pb.BlockStop()),
        pb.Event(finished=pb.Finished()),
    ]
    answer = read_message(stream(parse(thinking={"type": "adaptive", "display": display}), items))[
        "content"
    ]
    turns = [{"role": "user", "content": "x"}, {"role": "assistant", "content": answer}]
    assert parse(messages=turns).request.chat.messages[1].reasoning == thought


names = st.sampled_from(sorted(wire.MessagesBody.__struct_fields__))
kinds = st.sampled_from(
    [*wire.USER_BLOCKS, *wire.ASSISTANT_BLOCKS, *wire.RESULT_BLOCKS, "redacted_thinking", "x"]
)
sources = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "base64", "url", "content", "file"])},
    optional={"data": texts, "url": texts, "media_type": texts, "content": values},
)
blocks = st.fixed_dictionaries(
    {"type": kinds},
    optional={
        "text": texts | values,
        "source": sources | values,
        "content": texts | values,
        "tool_use_id": texts,
        "tool_name": texts,
        "name": texts,
        "input": values,
        "thinking": texts,
        "signature": texts.map(lambda text: f"mlxcel-thought.{text}"),
    },
)
turns = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system", "developer", "tool"])},
    optional={"content": texts | st.lists(blocks, max_size=3) | values, "clear_at": texts},
)


def refuse_or_parse(body: bytes) -> None:
    failure = refusal(lambda data: messages.parse(data, STAMP), body)
    assert failure is None or failure.code == "invalid_request"


@given(values)
def test_any_json_is_parsed_or_refused(value):
    refuse_or_parse(json.dumps(value).encode())


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(turns, max_size=4), st.dictionaries(names, values, max_size=3))
def test_any_field_of_any_type_is_parsed_or_refused(conversation, fields):
    refuse_or_parse(json.dumps({"messages": conversation} | fields).encode())


@given(names, values)
def test_one_odd_field_in_a_good_body_is_parsed_or_refused_by_name(name, value):
    body = {"messages": [{"role": "user", "content": "x"}]} | {name: value}
    failure = refusal(lambda data: messages.parse(data, STAMP), json.dumps(body).encode())
    if failure is not None:
        assert failure.code == "invalid_request"
        named = f"{failure.param} {failure.message}"
        assert name in named or "JSON" in named


@given(
    st.sampled_from(sorted(wire.MESSAGES_IGNORED)) | texts.map(lambda text: f"x_{text}"),
    values.filter(lambda value: "Infinity" not in json.dumps(value)),
)
def test_unknown_and_ignored_fields_have_no_effect(name, value):
    assert parse(**{name: value}).request == parse().request


@given(st.binary(max_size=60))
def test_any_bytes_are_refused(data):
    refuse_or_parse(data)


@given(st.binary(max_size=10))
def test_any_bytes_inside_a_string_are_parsed_or_refused(data):
    text = b'[{"role":"user","content":[{"type":"text","text":"x' + data + b'"}]}]'
    refuse_or_parse(b'{"messages":' + text + b',"zz":"' + data + b'"}')


@pytest.mark.parametrize("depth", [40, 200, 400, 2000])
def test_nesting_is_limited_everywhere(depth):
    inner: object = "x"
    for _ in range(depth):
        inner = [{"type": "document", "source": {"type": "content", "content": inner}}]
    try:
        text = json.dumps(inner)
    except RecursionError:
        text = "[" * depth + "]" * depth
    templates = (
        '{"messages":[{"role":"user","content":HERE}]}',
        '{"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"f","input":HERE}]}]}',
        '{"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","input_schema":HERE}]}',
    )
    for template in templates:
        refuse_or_parse(template.replace("HERE", text).encode())
        refuse_or_parse(template.replace("HERE", f'{{"a":{text}}}').encode())
