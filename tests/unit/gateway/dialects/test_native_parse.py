"""Native bodies: parsing and errors."""

from __future__ import annotations

import json

import pytest

from gateway.dialects.base import Stamp
from gateway.dialects.llama import infill, native, tokenization, wire
from shared.errors import ServiceError
from shared.pb import worker_pb2

STAMP = Stamp("cmpl-x", 1_715_000_000_000_000_000, 99)


def parse(**fields):
    return native.parse(json.dumps({"prompt": "x", **fields}).encode(), STAMP)


def refusal(work) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        work()
    assert caught.value.code == "invalid_request"
    return caught.value


# -------------------------------------------------------------------------- prompts


@pytest.mark.parametrize(
    ("prompt", "path"),
    [
        (None, "prompt"),
        ([], "prompt"),
        (["a", "b"], "prompt"),
        ([[1, 2]], "prompt"),
        ([1.5], "prompt"),
        ([1, -1], "prompt[1]"),
        ([2**32], "prompt[0]"),
        ([True, 1], "prompt"),
        ({"prompt_string": "x"}, "prompt"),
    ],
)
def test_an_invalid_prompt_is_refused_by_name(prompt, path):
    assert refusal(lambda: parse(prompt=prompt)).param.startswith(path)


@pytest.mark.parametrize("prompt", ["", " ", "\n"])
def test_blank_and_empty_prompts_are_accepted(prompt):
    assert parse(prompt=prompt).request.text == prompt


# -------------------------------------------------------------------------- limits


@pytest.mark.parametrize("name", ["n_predict", "max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("value", [-2, 2**31])
def test_a_limit_out_of_range_has_the_message_of_llama_server(name, value):
    failure = refusal(lambda: parse(**{name: value}))
    assert failure.param == name
    assert failure.message == (
        f"Field '{name}': Value must be between -1 <= value <= 2147483647, but got {value}"
    )


@pytest.mark.parametrize(
    ("value", "limit"), [(-1, 2**32 - 1), (0, 1), (7, 7), (2**31 - 1, 2**31 - 1)]
)
def test_limit_zero_is_one_token_and_minus_one_is_unlimited(value, limit):
    assert parse(n_predict=value).request.max_tokens == limit


def test_without_a_limit_the_worker_decides():
    assert not parse().request.HasField("max_tokens")


def test_a_thinking_budget_above_the_limit_is_refused():
    failure = refusal(lambda: parse(n_predict=3, thinking_budget_tokens=4))
    assert failure.message == "thinking_budget_tokens (4) must be <= max_tokens (3)"


# -------------------------------------------------------------------------- fields


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", 2),
        ("n_cmpl", 2),
        ("n_indent", 1),
        ("t_max_predict_ms", 10),
        ("verbose", True),
        ("samplers", ["top_k"]),
        ("samplers", "k"),
        ("response_format", {"type": "json_object"}),
        ("mirostat", 2),
        ("lora", [{"id": 0, "scale": 1.0}]),
        ("image_data", [{"data": "", "id": 1}]),
        ("grammar_lazy", True),
        ("n_probs", 101),
        ("n_probs", -1),
        ("logprobs", 101),
        ("sse_ping_interval", 0),
        ("sse_ping_interval", -2),
        ("seed", -2),
        ("response_fields", ["x"] * 257),
    ],
)
def test_unsupported_fields_are_refused_by_name(name, value):
    failure = refusal(lambda: parse(**{name: value}))
    assert (failure.param, failure.message.split()[0]) == (name, name)


@pytest.mark.parametrize("seed", [None, -1, 2**64 - 1])
def test_the_largest_seed_and_minus_one_are_random(seed):
    assert parse(seed=seed).request.sampling.seed == STAMP.seed
    assert parse(seed=2**64 - 2).request.sampling.seed == 2**64 - 2


def test_a_prompt_has_a_limited_number_of_pieces():
    assert refusal(lambda: parse(prompt=["a", *[1] * 2**18])).param == "prompt"
    assert len(parse(prompt=[1] * 2**18).request.tokens.ids) == 2**18


def test_a_grammar_and_a_schema_at_once_are_refused():
    failure = refusal(lambda: parse(grammar='root ::= "a"', json_schema={"type": "object"}))
    assert failure.param == "grammar"


def test_an_invalid_schema_is_named_by_the_field_of_the_route():
    failure = refusal(lambda: parse(json_schema=[1]))
    assert failure.message == "invalid JSON schema for json_schema: not an object"


@pytest.mark.parametrize(
    ("value", "kind"), [(1, "number"), ("x", "string"), ([], "array"), ({}, "object")]
)
def test_invalid_stream_options_have_the_message_of_llama_server(value, kind):
    failure = refusal(lambda: parse(stream_options={"include_usage": value}))
    assert failure.message == f"Field 'include_usage': type must be boolean, but is {kind}"


def test_valid_stream_options_have_no_effect():
    for options in ([], "x", None, {}, {"include_usage": None}, {"include_usage": True}):
        assert not parse(stream_options=options).include_usage


def test_ids_are_requested_only_if_returned():
    assert not parse().request.with_ids
    assert parse(stream=True).request.with_ids
    assert parse(return_tokens=True).request.with_ids
    assert not parse(timings_per_token=True).request.with_timings
    assert parse(timings_per_token=True, stream=True).request.with_timings


def test_a_client_sets_the_ping_interval():
    assert parse().ping_interval_s is None
    assert parse(sse_ping_interval=5).ping_interval_s == 5


def test_streams_are_not_counted_by_the_reference():
    assert (parse().counted, parse(stream=True).counted) == (True, False)


@pytest.mark.parametrize("body", [wire.NativeBody, wire.InfillBody])
def test_fields_are_read_ignored_or_refused_but_never_two_of_these(body):
    fields = set(body.__struct_fields__)
    assert fields.isdisjoint(wire.NATIVE_IGNORED)
    assert fields.issuperset(wire.NATIVE_REFUSED)


# -------------------------------------------------------------------------- infill


@pytest.mark.parametrize("missing", ["input_prefix", "input_suffix"])
def test_prefix_and_suffix_are_required(missing):
    fields = {"input_prefix": "a", "input_suffix": "b"}
    del fields[missing]
    failure = refusal(lambda: infill.parse(json.dumps(fields).encode(), STAMP))
    assert failure.param == missing


def test_missing_infill_tokens_are_named():
    card = worker_pb2.ModelCard(infill=worker_pb2.InfillMarkers(suffix="<SUF>"))
    with pytest.raises(ServiceError) as caught:
        infill.require_markers(card)
    assert caught.value.code == "not_supported"
    assert caught.value.message == (
        "Infill is not supported by this model: prefix token is missing. middle token is missing."
    )
    card.infill.prefix, card.infill.middle = "<PRE>", "<MID>"
    infill.require_markers(card)


@pytest.mark.parametrize(
    ("body", "model"),
    [(b'{"model":"m","n":"x"}', "m"), (b'{"model":1}', None), (b"{", None), (b"[]", None)],
)
def test_the_model_is_read_from_an_invalid_body(body, model):
    assert infill.model_of(body) == model


# ------------------------------------------------------------------ tokens and text


def tokenize(**fields):
    return tokenization.parse_tokenize(json.dumps(fields).encode())[0]


def test_text_defaults_are_those_of_llama_server():
    request = tokenize(content="x")
    assert [piece.text for piece in request.pieces] == ["x"]
    assert (request.add_special, request.parse_special, request.with_pieces) == (False, True, False)
    request = tokenize(content=["a", 5, "b"], add_special=True, parse_special=False)
    assert [piece.text or piece.id for piece in request.pieces] == ["a", 5, "b"]
    assert (request.add_special, request.parse_special) == (True, False)


@pytest.mark.parametrize("fields", [{}, {"content": None}, {"content": []}])
def test_no_content_has_no_tokens(fields):
    assert not tokenize(**fields).pieces


@pytest.mark.parametrize(
    ("content", "path"),
    [
        (1, "content"),
        ({}, "content"),
        ([1.5], "content[0]"),
        (["a", None], "content[1]"),
        ([[1]], "content[0]"),
        ([-1], "content[0]"),
        ([2**32], "content[0]"),
        ([True], "content[0]"),
    ],
)
def test_invalid_content_is_a_tokenization_error(content, path):
    failure = refusal(lambda: tokenize(content=content))
    assert failure.param == path
    assert failure.message.startswith(f"Tokenization error: {path} must be")


def test_a_piece_that_is_not_utf8_is_returned_as_bytes():
    reply = _reply([19556, 233], [b"Hello", b"\x8f"])
    assert tokenization.describe_tokens(reply, with_pieces=False) == {"tokens": [19556, 233]}
    assert tokenization.describe_tokens(reply, with_pieces=True) == {
        "tokens": [{"id": 19556, "piece": "Hello"}, {"id": 233, "piece": [143]}]
    }


def _reply(ids, pieces):
    return tokenization.pb.TokenizeReply(ids=ids, pieces=pieces)


def test_ids_to_detokenize_have_64_bits():
    def detokenize(tokens):
        return tokenization.parse_detokenize(json.dumps({"tokens": tokens}).encode())[0]

    assert list(detokenize([0, -1, 2**63 - 1]).ids) == [0, -1, 2**63 - 1]
    assert list(detokenize(None).ids) == []
    assert refusal(lambda: detokenize([1, 2**63])).param == "tokens[1]"
    assert refusal(lambda: detokenize("x")).param == "tokens"
