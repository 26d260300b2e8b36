"""All curl examples of the reference, with the starter model."""

from __future__ import annotations

import json

import pytest

from tests import spec
from tests.example import read_reference
from tests.models.conftest import NAME

COMMANDS = read_reference()
# Example → vendor and component of its response.
COMPONENTS = {
    "priority": ("openai", "CreateChatCompletionResponse"),
    "greedy": ("openai", "CreateChatCompletionResponse"),
    "schema": ("openai", "CreateChatCompletionResponse"),
    "answer": ("openai", "CreateChatCompletionResponse"),
    "image": ("openai", "ErrorResponse"),
    "completions": ("openai", "CreateCompletionResponse"),
    "responses": ("openai", "Response"),
    "messages": ("anthropic", "Message"),
    "models": ("openai", "ListModelsResponse"),
}


def test_all_examples_of_the_reference_are_present():
    assert len(COMMANDS) == 17


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"image"}))
def test_an_example_is_answered(outcomes, name):
    assert outcomes[name].status == 200, outcomes[name].body


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_response_follows_the_specification(outcomes, name):
    vendor, component = COMPONENTS[name]
    assert spec.find_errors(vendor, component, json.loads(outcomes[name].body)) == []


@pytest.mark.parametrize("name", ["priority", "greedy", "answer"])
def test_a_chat_completion(outcomes, name):
    body = json.loads(outcomes[name].body)
    (choice,) = body["choices"]
    assert choice["message"]["content"]
    most = 100 if name == "answer" else 48
    assert 0 < body["usage"]["completion_tokens"] <= most
    # The models of the reference are not served; the default model answers, under its own name.
    assert body["model"] == NAME


def test_an_answer_follows_the_schema(outcomes):
    (choice,) = json.loads(outcomes["schema"].body)["choices"]
    text = choice["message"]["content"]
    assert text.startswith("{")
    if choice["finish_reason"] == "stop":
        assert json.loads(text)["habitat"] in ("forest", "desert", "ocean")


def test_a_stream_of_chunks(outcomes):
    stream = outcomes["stream"].body
    assert stream.strip().endswith("data: [DONE]")
    chunks = spec.read_events(stream)
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert chunks[-1]["choices"][0]["finish_reason"] in ("stop", "length")
    assert "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
    for chunk in chunks:
        assert spec.find_errors("openai", "CreateChatCompletionStreamResponse", chunk) == []


def test_an_image_is_refused(outcomes):
    error = json.loads(outcomes["image"].body)["error"]
    assert outcomes["image"].status == 501
    assert error["type"] == "not_supported_error"
    assert error["message"].startswith("image input is not supported")


def test_the_capital_of_france_in_two_dialects(outcomes):
    assert "Paris" in json.loads(outcomes["completions"].body)["choices"][0]["text"]
    native = json.loads(outcomes["completion"].body)
    assert "Paris" in native["content"]
    assert native["stop"] is True
    assert 0 < native["tokens_predicted"] <= 32
    assert native["timings"]["predicted_n"] == native["tokens_predicted"]


def test_a_response_and_a_message(outcomes):
    response = json.loads(outcomes["responses"].body)
    assert response["object"] == "response"
    # Without a temperature some answers exceed the server's limit.
    assert response["status"] in ("completed", "incomplete")
    assert response["output_text"]
    message = json.loads(outcomes["messages"].body)
    assert message["content"][0]["text"]
    assert message["stop_reason"] in ("end_turn", "max_tokens")


def test_text_to_tokens_and_back(outcomes):
    tokens = json.loads(outcomes["tokenize"].body)["tokens"]
    assert tokens and all(type(token) is int for token in tokens)
    assert isinstance(json.loads(outcomes["detokenize"].body)["content"], str)


def test_health_models_and_metrics(outcomes):
    (entry,) = json.loads(outcomes["models"].body)["data"]
    assert (entry["id"], entry["owned_by"]) == (NAME, "user")
    # With -i the headers precede the body.
    head, _, body = outcomes["health"].body.partition("\n\n")
    assert head.startswith("HTTP/1.1 200 OK")
    assert json.loads(body)["status"] == "ok"
    assert "\nmlxcel_slots_total 8\n" in outcomes["metrics"].body
    slots = json.loads(outcomes["slots"].body)
    assert len([slot for slot in slots if slot["state"] != "queued"]) == 8
    props = json.loads(outcomes["props"].body)
    assert props["total_slots"] == 8
    assert props["default_generation_settings"]["n_predict"] == 48
