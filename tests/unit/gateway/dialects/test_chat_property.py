"""Properties of all chat streams and bodies."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.dialects.base import Policy, Stamp
from gateway.dialects.openai import chat, wire
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb
from tests.unit.gateway.dialects.drawing import answers, fail_at, texts, values, whole

STAMP = Stamp("chatcmpl-x", 1_715_000_000_000_000_000, 1)


def parse(stamp=STAMP, **fields):
    body = {"messages": [{"role": "user", "content": "x"}], **fields}
    return chat.parse(json.dumps(body).encode(), stamp)


def read_stream(data: bytes) -> list[dict]:
    """Check the form of a stream; return its chunks."""
    assert data.endswith(b"\n\n")
    events = data.decode().removesuffix("\n\n").split("\n\n")
    assert all(event.startswith("data: ") and "\n" not in event for event in events)
    *chunks, done = [event.removeprefix("data: ") for event in events]
    assert done == "[DONE]"
    return [json.loads(chunk) for chunk in chunks]


@given(answers(), st.booleans())
def test_a_stream_is_well_formed(items, include_usage):
    renderer = chat.renderer(
        parse(stream=True, stream_options={"include_usage": include_usage}, logprobs=True), "m"
    )
    chunks = read_stream(b"".join(map(renderer.feed, items)))
    if include_usage:
        *chunks, usage = chunks
        assert usage["choices"] == []
        assert usage["usage"]["prompt_tokens"] == 0
    choices = [chunk["choices"][0] for chunk in chunks]
    assert choices[0]["delta"] == {"role": "assistant"}
    reasons = [choice["finish_reason"] for choice in choices]
    assert reasons[-1] is not None
    assert set(reasons[:-1]) <= {None}
    assert all("logprobs" in choice for choice in choices)
    assert sum("role" in choice["delta"] for choice in choices) == 1


@given(answers())
def test_streamed_text_equals_the_folded_text(items):
    parsed = parse(stream=True, logprobs=True)
    chunks = read_stream(b"".join(map(chat.renderer(parsed, "m").feed, items)))
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    message = json.loads(chat.body(parsed, "m", whole(items)))["choices"][0]["message"]
    assert "".join(delta.get("content", "") for delta in deltas) == (message["content"] or "")
    for name in ("reasoning_content", "reasoning"):
        assert "".join(delta.get(name, "") for delta in deltas) == message.get(name, "")
    calls: dict[int, str] = {}
    for delta in deltas:
        for call in delta.get("tool_calls", []):
            calls.setdefault(call["index"], "")
            calls[call["index"]] += call["function"].get("arguments", "")
    wanted = [call["function"]["arguments"] for call in message.get("tool_calls", [])]
    assert [calls[index] for index in sorted(calls)] == wanted
    assert deltas[-1].get("reasoning_only") == message.get("reasoning_only")


@given(answers())
def test_the_reasoning_alias_can_be_disabled(items):
    def tell(policy):
        parsed = parse(Stamp("chatcmpl-x", 0, 1, policy), stream=True, logprobs=True)
        body = json.loads(chat.body(parsed, "m", whole(items)))
        return read_stream(b"".join(map(chat.renderer(parsed, "m").feed, items))), body

    chunks, body = tell(Policy())
    for chunk in chunks:
        chunk["choices"][0]["delta"].pop("reasoning", None)
    body["choices"][0]["message"].pop("reasoning", None)
    assert tell(Policy(reasoning_alias=False)) == (chunks, body)


@given(answers())
def test_every_token_has_its_own_position_in_the_stream(items):
    chunks = read_stream(b"".join(map(chat.renderer(parse(logprobs=True), "m").feed, items)))
    found = [chunk["choices"][0]["logprobs"] for chunk in chunks]
    assert all(len(logprobs["content"]) == 1 for logprobs in found if logprobs)
    tokens = [info for item in items if isinstance(item, pb.Event) for info in item.delta.infos]
    assert sum(logprobs is not None for logprobs in found) == len(tokens)


@given(answers(), st.integers(0, 30))
def test_a_failure_at_any_point_ends_the_stream(items, cut):
    renderer = chat.renderer(parse(stream=True), "m")
    chunks = read_stream(b"".join(map(renderer.feed, fail_at(items, cut))))
    assert chunks[-1]["choices"][0]["finish_reason"] == "error"
    assert chunks[-1]["error"]["type"] == "server_error"


names = st.sampled_from(sorted(wire.ChatBody.__struct_fields__))
parts = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image_url", "input_audio", "video_url", "refusal", "x"])},
    optional={"text": texts | values, "image_url": values, "refusal": texts},
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system", "developer", "tool"])},
    optional={
        "content": texts | st.lists(parts, max_size=2) | values,
        "tool_calls": st.lists(
            st.fixed_dictionaries(
                {"function": st.fixed_dictionaries({"name": texts, "arguments": values})}
            ),
            max_size=2,
        ),
        "reasoning": texts,
    },
)


def refusal(body: bytes) -> ServiceError | None:
    """Return the error of a body; None if it is parsed."""
    try:
        parsed = chat.parse(body, STAMP)
    except ServiceError as failure:
        return failure
    assert parsed.request.chat.messages
    return None


def refuse_or_parse(body: bytes) -> None:
    failure = refusal(body)
    assert failure is None or failure.code == "invalid_request"


@given(values)
def test_any_json_is_parsed_or_refused(value):
    refuse_or_parse(json.dumps(value).encode())


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(messages, max_size=3), st.dictionaries(names, values, max_size=3))
def test_any_field_of_any_type_is_parsed_or_refused(turns, fields):
    refuse_or_parse(json.dumps({"messages": turns} | fields).encode())


@given(names, values)
def test_one_odd_field_in_a_good_body_is_parsed_or_refused_by_name(name, value):
    body = {"messages": [{"role": "user", "content": "x"}]} | {name: value}
    failure = refusal(json.dumps(body).encode())
    if failure is not None:
        assert failure.code == "invalid_request"
        named = f"{failure.param} {failure.message}"
        assert name in named or "JSON" in named


@given(st.binary(max_size=60))
def test_any_bytes_are_refused(data):
    refuse_or_parse(data)


@given(st.binary(max_size=10))
def test_any_bytes_inside_a_string_are_parsed_or_refused(data):
    refuse_or_parse(
        b'{"messages":[{"role":"user","content":"x' + data + b'"}],"zz":"' + data + b'"}'
    )
