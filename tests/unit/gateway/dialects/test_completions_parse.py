"""Errors of text completion bodies."""

from __future__ import annotations

import json

import pytest

from gateway.dialects.base import Stamp
from gateway.dialects.openai import completions, wire
from shared.errors import ServiceError

STAMP = Stamp("cmpl-x", 1_715_000_000_000_000_000, 1)


def refusal(**fields) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        completions.parse(json.dumps({"prompt": "x", **fields}).encode(), STAMP)
    assert caught.value.code == "invalid_request"
    return caught.value


@pytest.mark.parametrize(
    "prompt",
    [None, 1, {}, [], [[]], [1, "a"], ["a", " "], [-1], [1.5], ["a"] * 129, " ", "\n\t "],
)
def test_a_prompt_is_a_text_that_is_not_blank_or_token_ids(prompt):
    assert refusal(prompt=prompt).param.partition("[")[0] == "prompt"


@pytest.mark.parametrize(
    ("prompt", "found"),
    [
        ("a", ["a"]),
        (["a"], ["a"]),
        (["a", "", "c"], ["a", "", "c"]),
        ([1, 2], [[1, 2]]),
        ([[1, 2]], [[1, 2]]),
        ([[1], "a", [2, 3]], [[1], "a", [2, 3]]),
    ],
)
def test_each_prompt_becomes_a_request(prompt, found):
    parsed = completions.parse(json.dumps({"prompt": prompt, "max_tokens": 3}).encode(), STAMP)
    requests = [parsed.request, *parsed.others]
    read = [list(r.tokens.ids) if r.HasField("tokens") else r.text for r in requests]
    assert read == found
    assert len({r.request_id for r in requests}) == len({r.sampling.seed for r in requests})
    assert len({r.request_id for r in requests}) == len(found)
    assert {r.max_tokens for r in requests} == {3}


def test_the_prompt_is_required():
    with pytest.raises(ServiceError) as caught:
        completions.parse(b"{}", STAMP)
    assert (caught.value.param, caught.value.message) == ("prompt", "prompt: is required")


@pytest.mark.parametrize("value", [-1, 6, True, "2", 1.5])
def test_logprobs_is_a_number_up_to_five(value):
    assert refusal(logprobs=value).param == "logprobs"


@pytest.mark.parametrize(
    ("name", "value"),
    [("echo", True), ("suffix", "end"), ("best_of", 2), ("n", 2), ("n", True), ("mirostat", 1)],
)
def test_unsupported_fields_are_refused_by_name(name, value):
    failure = refusal(**{name: value})
    assert (failure.param, failure.message.split()[0]) == (name, name)


def test_a_json_object_without_a_schema_is_refused_as_in_a_chat():
    failure = refusal(response_format={"type": "json_object"})
    assert failure.message.startswith("invalid response_format:")


def test_fields_are_read_ignored_or_refused_but_never_two_of_these():
    fields = set(wire.CompletionBody.__struct_fields__)
    assert fields.isdisjoint(wire.COMPLETION_IGNORED)
    assert fields.issuperset(wire.COMPLETION_REFUSED)
