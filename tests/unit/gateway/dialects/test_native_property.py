"""Properties of all native completions."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.base import Stamp
from gateway.dialects.llama import infill, native, tokenization, wire
from gateway.generation.fold import Completion
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb
from tests.unit.gateway.dialects.drawing import answers, fail_at, refusal, values, whole

STAMP = Stamp("cmpl-x", 1_715_000_000_000_000_000, 1)
NAMES = st.sampled_from(sorted(wire.InfillBody.__struct_fields__))
KEYS = {"index", "content", "tokens", "stop", "id_slot", "tokens_predicted", "tokens_evaluated"}


def parse(**fields):
    return native.parse(json.dumps({"prompt": "x", **fields}).encode(), STAMP)


class Grammar:
    """The states of a stream: progress, then pieces of text, then the last event.

    Attributes:
        text: of all pieces so far.
        tokens: likewise.
    """

    def __init__(self) -> None:
        self.state = "progress"
        self.text = ""
        self.tokens: list[int] = []
        self.last: dict = {}

    def take(self, data: bytes) -> None:
        """Read the events in some bytes."""
        assert not data or data.endswith(b"\n\n")
        for event in data.decode().split("\n\n")[:-1]:
            assert event.startswith("data: ")
            assert "\n" not in event
            self._step(json.loads(event.removeprefix("data: ")))

    def _step(self, event: dict) -> None:
        assert self.state in ("progress", "text")
        if "error" in event:
            assert event["error"]["code"] == 500
            self.state = "failed"
            return
        if event["stop"]:
            self.state, self.last = "done", event
            return
        if "prompt_progress" in event:
            assert self.state == "progress"
            assert (event["content"], event["tokens"], event["tokens_predicted"]) == ("", [], 0)
            return
        self.state = "text"
        assert event.keys() - {"completion_probabilities", "timings"} == KEYS
        self.text += event["content"]
        self.tokens += event["tokens"]
        assert event["tokens_predicted"] == len(self.tokens)


def follow(items, **fields) -> Grammar:
    grammar, renderer = Grammar(), native.renderer(parse(stream=True, **fields), "m")
    for item in items:
        grammar.take(renderer.feed(item))
    return grammar


def give_ids(items):
    """Return an answer with token ids: one per piece of text."""
    for index, item in enumerate(items):
        if isinstance(item, pb.Event) and item.HasField("delta"):
            item.delta.ids.append(index)
    return items


@given(answers(), st.booleans())
def test_streamed_text_and_tokens_equal_the_folded_ones(items, return_progress):
    items = give_ids(items)
    grammar = follow(items, n_probs=1, return_progress=return_progress)
    assert grammar.state == "done"
    body = json.loads(native.body(parse(n_probs=1, return_tokens=True), "m", whole(items)))
    assert (grammar.text, grammar.tokens) == (body["content"], body["tokens"])
    told = {"content": "", "tokens": [], "generation_settings": grammar.last["generation_settings"]}
    del body["completion_probabilities"]
    assert grammar.last == body | told
    assert body["has_new_line"] == ("\n" in grammar.text)


@given(answers(), st.integers(0, 30))
def test_a_failure_at_any_point_is_the_last_event(items, cut):
    assert follow(fail_at(items, cut)).state == "failed"


@given(answers(), st.integers(0, 30))
def test_a_truncated_stream_is_well_formed_without_an_end(items, cut):
    assert follow(items[:-1][:cut], return_progress=True).state in ("progress", "text")


@given(answers(), st.lists(st.sampled_from(["content", "timings/cache_n", "x", "stop/x"])))
def test_only_requested_fields_are_returned(items, paths):
    body = json.loads(native.body(parse(response_fields=paths), "m", whole(items)))
    assert body.keys() == {p for p in paths if p in ("content", "timings/cache_n")} or not paths


def refuse_or_parse(parse_body, body: bytes) -> ServiceError | None:
    failure = refusal(parse_body, body)
    assert failure is None or failure.code == "invalid_request"
    return failure


BODIES = (
    lambda data: native.parse(data, STAMP),
    lambda data: infill.parse(data, STAMP),
    tokenization.parse_tokenize,
    tokenization.parse_detokenize,
)


@given(
    st.sampled_from(BODIES),
    values | st.dictionaries(NAMES | st.sampled_from(["content", "tokens"]), values, max_size=4),
)
def test_any_json_is_parsed_or_refused(parse_body, value):
    refuse_or_parse(parse_body, json.dumps(value).encode())


@given(st.dictionaries(NAMES, values, max_size=4))
def test_every_parsed_body_can_be_rendered(fields):
    body = {"input_prefix": "", "input_suffix": ""} | fields
    try:
        parsed = infill.parse(json.dumps(body).encode(), STAMP)
    except ServiceError:
        return
    items = [pb.Accepted(), pb.Event(finished=pb.Finished())]
    told = json.loads(native.body(parsed, "m", whole(items)))
    assert told.get("stop", True) is True
    assert b"".join(map(native.renderer(parsed, "m").feed, items)).startswith(b"data: {")


@pytest.mark.parametrize("name", ["n_keep", "n_discard", "seed", "sse_ping_interval"])
@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**64, 10**400])
def test_numbers_too_large_to_render_are_refused(name, value):
    try:
        parsed = parse(**{name: value})
    except ServiceError as failure:
        named = f"{failure.param} {failure.message}"
    else:
        named = native.body(parsed, "m", Completion()).decode()
    assert name in named or "JSON" in named


@given(NAMES, values)
def test_one_odd_field_in_a_good_body_is_parsed_or_refused_by_name(name, value):
    body = {"input_prefix": "", "input_suffix": "", "prompt": ""} | {name: value}
    failure = refuse_or_parse(BODIES[1], json.dumps(body).encode())
    if failure is not None:
        named = f"{failure.param} {failure.message}"
        assert name in named or "JSON" in named


@given(st.lists(st.integers() | st.text(max_size=3) | values, max_size=4))
def test_any_array_is_a_prompt_or_refused(prompt):
    failure = refuse_or_parse(BODIES[0], json.dumps({"prompt": prompt}).encode())
    assert failure is None or failure.param.startswith("prompt")


@given(st.sampled_from(BODIES), st.binary(max_size=60))
def test_any_bytes_are_parsed_or_refused(parse_body, data):
    refuse_or_parse(parse_body, data)
