"""Properties of all text completions."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.base import Stamp
from gateway.dialects.openai import completions, wire
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb
from tests.unit.gateway.dialects.drawing import answers, fail_at, refusal, texts, values, whole

STAMP = Stamp("cmpl-x", 1_715_000_000_000_000_000, 1)
NAMES = st.sampled_from(sorted(wire.CompletionBody.__struct_fields__))


def parse(**fields):
    return completions.parse(json.dumps({"prompt": "x", **fields}).encode(), STAMP)


class Grammar:
    """The states of a stream: pieces of text, the end of the choice, the usage, [DONE].

    Attributes:
        text: of all pieces so far.
    """

    def __init__(self) -> None:
        self.state = "text"
        self.text = ""
        self.logprobs: list[dict] = []

    def take(self, data: bytes) -> None:
        """Read the events in some bytes."""
        assert not data or data.endswith(b"\n\n")
        for event in data.decode().split("\n\n")[:-1]:
            assert event.startswith("data: ")
            assert "\n" not in event
            self._step(event.removeprefix("data: "))

    def _step(self, text: str) -> None:
        assert self.state != "done"
        if text == "[DONE]":
            assert self.state != "text"
            self.state = "done"
            return
        chunk = json.loads(text)
        assert (chunk["object"], chunk["id"], chunk["model"]) == ("text_completion", "cmpl-x", "m")
        if not chunk["choices"]:
            assert self.state == "ended"
            assert chunk["usage"]["total_tokens"] == 0
            self.state = "used"
            return
        self._step_choice(chunk)

    def _step_choice(self, chunk: dict) -> None:
        assert self.state == "text"
        (choice,) = chunk["choices"]
        assert set(choice) == {"index", "text", "delta", "finish_reason", "logprobs"}
        if choice["finish_reason"] is None:
            assert choice["delta"] == {"text": choice["text"]}
            self.text += choice["text"]
            self.logprobs += [choice["logprobs"]] if choice["logprobs"] else []
            return
        assert (choice["text"], choice["delta"], choice["logprobs"]) == ("", {}, None)
        assert ("error" in chunk) == (choice["finish_reason"] == "error")
        self.state = "failed" if "error" in chunk else "ended"


def follow(items, **fields) -> Grammar:
    grammar, renderer = Grammar(), completions.renderer(parse(stream=True, **fields), "m")
    for item in items:
        grammar.take(renderer.feed(item))
    return grammar


@given(answers(), st.booleans())
def test_streamed_text_and_log_probabilities_equal_the_folded_ones(items, include_usage):
    grammar = follow(items, logprobs=1, stream_options={"include_usage": include_usage})
    assert grammar.state == "done"
    body = json.loads(completions.body(parse(logprobs=1), "m", whole(items)))
    (choice,) = body["choices"]
    assert choice["text"] == grammar.text
    for name, values_ in choice["logprobs"].items():
        assert values_ == [value for table in grammar.logprobs for value in table[name]]


@given(answers(), st.integers(0, 30))
def test_a_failure_at_any_point_ends_the_stream(items, cut):
    assert follow(fail_at(items, cut)).state == "done"


@given(answers(), st.integers(0, 30))
def test_a_truncated_stream_is_well_formed_without_an_end(items, cut):
    assert follow(items[:-1][:cut]).state == "text"


@given(st.lists(st.binary(max_size=6), max_size=6))
def test_every_token_has_its_offset_whatever_its_bytes(pieces):
    infos = [pb.TokenInfo(text=piece, logprob=-1.0) for piece in pieces]
    table = completions.LogprobTable().take(infos)
    assert {len(column) for column in table.values()} == {len(pieces)}
    assert table["text_offset"] == sorted(table["text_offset"])


def refuse_or_parse(body: bytes) -> ServiceError | None:
    failure = refusal(lambda data: completions.parse(data, STAMP), body)
    assert failure is None or failure.code == "invalid_request"
    return failure


@given(values | st.dictionaries(NAMES, values, max_size=4))
def test_any_json_is_parsed_or_refused(value):
    refuse_or_parse(json.dumps(value).encode())


@given(NAMES, values)
def test_one_odd_field_in_a_good_body_is_parsed_or_refused_by_name(name, value):
    failure = refuse_or_parse(json.dumps({"prompt": "x"} | {name: value}).encode())
    if failure is not None:
        named = f"{failure.param} {failure.message}"
        assert name in named or "JSON" in named


@given(st.binary(max_size=60))
def test_any_bytes_are_parsed_or_refused(data):
    refuse_or_parse(data)


@given(texts)
def test_a_blank_prompt_is_refused_and_an_empty_one_accepted(prompt):
    failure = refuse_or_parse(json.dumps({"prompt": prompt}).encode())
    assert (failure is not None) == (prompt != "" and not prompt.strip())
