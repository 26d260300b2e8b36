"""The official client's responses against the whole server, strictly validated.

On SmolLM2 where answers matter.
"""

from __future__ import annotations

import base64
import json
import random

import jsonschema
import openai
import pydantic
import pytest

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 12},
            "days": {"type": "integer", "minimum": 1, "maximum": 9},
        },
        "required": ["city", "days"],
        "additionalProperties": False,
    },
}
TIME = {"type": "function", "name": "get_time", "parameters": {"type": "object"}, "strict": False}
NAMED = {"type": "function", "name": "get_weather"}
CAPITAL = {"model": "tiny", "input": "What is the capital of France?", "temperature": 0}
THINKING = {
    "reasoning": {"effort": "low"},
    "extra_body": {"thinking_budget_tokens": 6, "ignore_eos": True},
}


class Animal(pydantic.BaseModel):
    """The schema of a structured answer."""

    model_config = pydantic.ConfigDict(extra="forbid")
    name: str = pydantic.Field(max_length=12)
    legs: int = pydantic.Field(ge=0, le=9)


@pytest.fixture
def client(hermes):
    with openai.OpenAI(
        base_url=f"{hermes.url}/v1",
        api_key="none",
        max_retries=0,
        _strict_response_validation=True,
    ) as made:
        yield made


def shape(response):
    """Return a response without the fields that differ between requests."""
    kinds = [(item.type, item.status) for item in response.output]
    return kinds, response.output_text, response.usage.output_tokens, response.status


def stream(client, **fields):
    """Return the types of a stream's events and the response of the last one."""
    events = list(client.responses.create(**fields, stream=True))
    return [event.type for event in events], events[-1].response


def test_a_streamed_response_equals_the_whole_one(client):
    fields = CAPITAL | {"model": "smol", "max_output_tokens": 24}
    whole = client.responses.create(**fields)
    assert "Paris" in whole.output_text
    assert whole.status == "completed"
    assert whole.usage.total_tokens == whole.usage.input_tokens + whole.usage.output_tokens
    kinds, streamed = stream(client, **fields)
    assert shape(streamed) == shape(whole)
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    with client.responses.stream(**fields) as helper:
        texts = [event.delta for event in helper if event.type == "response.output_text.delta"]
        assert "".join(texts) == helper.get_final_response().output_text == whole.output_text


def test_a_limit_gives_an_incomplete_response(client):
    whole = client.responses.create(**CAPITAL, max_output_tokens=3)
    assert whole.status == "incomplete"
    assert whole.incomplete_details.reason == "max_output_tokens"
    kinds, streamed = stream(client, **CAPITAL, max_output_tokens=3)
    assert kinds[-1] == "response.incomplete"
    assert shape(streamed) == shape(whole)


def test_a_named_function_is_called(client):
    fields = {"model": "tiny", "input": "Weather in Paris?", "tools": [WEATHER, TIME]}
    fields |= {"tool_choice": NAMED, "temperature": 0, "max_output_tokens": 200}
    whole = client.responses.create(**fields)
    (call,) = whole.output
    assert (call.type, call.name, call.status) == ("function_call", "get_weather", "completed")
    jsonschema.validate(json.loads(call.arguments), WEATHER["parameters"])
    with client.responses.stream(**fields) as helper:
        streamed = helper.get_final_response()
    assert streamed.output[0].arguments == call.arguments
    assert streamed.output[0].parsed_arguments == json.loads(call.arguments)


def test_a_required_call_is_made_within_the_limit_of_calls(client):
    space = {"type": "namespace", "name": "mcp", "description": "Tools.", "tools": [WEATHER]}
    response = client.responses.create(
        model="tiny",
        input="Weather in Paris?",
        tools=[space],
        tool_choice="required",
        max_tool_calls=1,
        max_output_tokens=300,
        extra_body={"seed": 3},
    )
    (call,) = response.output
    assert (call.type, call.status) == ("function_call", "completed")
    assert (call.namespace, call.name) == ("mcp", "get_weather")
    jsonschema.validate(json.loads(call.arguments), WEATHER["parameters"])


def test_a_call_is_answered_by_chaining_and_by_resending_the_history(client):
    fields = {"model": "tiny", "tools": [WEATHER], "temperature": 0}
    asked = {"role": "user", "content": "Weather in Paris?"}
    first = client.responses.create(**fields, input=[asked], tool_choice=NAMED)
    result = {
        "type": "function_call_output",
        "call_id": first.output[0].call_id,
        "output": "sunny",
    }
    options = fields | {"tool_choice": "none", "max_output_tokens": 8}
    chained = client.responses.create(**options, input=[result], previous_response_id=first.id)
    history = [asked, *(item.model_dump() for item in first.output), result]
    whole = client.responses.create(**options, input=history)
    assert whole.output_text == chained.output_text
    assert whole.usage.input_tokens == chained.usage.input_tokens


def test_parse_returns_a_pydantic_model(client):
    fields = {"model": "smol", "input": "An animal.", "temperature": 0, "max_output_tokens": 60}
    response = client.responses.parse(**fields, text_format=Animal)
    assert isinstance(response.output_parsed, Animal)
    assert response.text.format.schema_["properties"].keys() == {"name", "legs"}


def test_reasoning_is_an_item_and_can_be_sent_back(client):
    fields = {"model": "tiny", "temperature": 0, "max_output_tokens": 24, **THINKING}
    fields |= {"include": ["reasoning.encrypted_content"]}
    asked = {"role": "user", "content": "What is the capital of France?"}
    whole = client.responses.create(**fields, input=[asked])
    assert [item.type for item in whole.output] == ["reasoning", "message"]
    assert whole.output[0].content[0].text
    assert "think>" not in whole.output[0].content[0].text
    assert whole.usage.output_tokens_details.reasoning_tokens >= 6
    kinds, streamed = stream(client, **fields, input=[asked])
    assert shape(streamed) == shape(whole)
    assert kinds.index("response.reasoning_text.delta") < kinds.index("response.output_text.delta")
    assert whole.output[0].encrypted_content == streamed.output[0].encrypted_content != ""
    back = [asked, *(item.model_dump() for item in whole.output), asked]
    assert client.responses.create(**fields, input=back).usage.output_tokens


def test_logprobs_are_those_of_the_tokens(client):
    fields = CAPITAL | {"max_output_tokens": 4, "top_logprobs": 2}
    include = ["message.output_text.logprobs"]
    whole = client.responses.create(**fields, include=include)
    (part,) = whole.output[0].content
    assert len(part.logprobs) == 4
    assert b"".join(bytes(info.bytes) for info in part.logprobs).decode() == part.text
    assert all(len(info.top_logprobs) == 2 for info in part.logprobs)
    _, streamed = stream(client, **fields, include=include)
    assert streamed.output[0].content[0].logprobs == part.logprobs


def test_a_response_is_stored_chained_cancelled_and_deleted(client):
    first = client.responses.create(**CAPITAL, max_output_tokens=12)
    assert client.responses.retrieve(first.id) == first
    fields = {"model": "tiny", "temperature": 0, "max_output_tokens": 6}
    second = client.responses.create(**fields, input="And?", previous_response_id=first.id)
    assert second.usage.input_tokens > first.usage.input_tokens + first.usage.output_tokens
    assert client.responses.cancel(first.id).status == "cancelled"
    assert client.responses.retrieve(first.id).status == "cancelled"
    client.responses.delete(first.id)
    for look in (client.responses.retrieve, client.responses.cancel):
        with pytest.raises(openai.NotFoundError):
            look(first.id)
    with pytest.raises(openai.BadRequestError, match="was not found or has expired"):
        client.responses.create(**fields, input="x", previous_response_id=first.id)


def test_a_conversation_is_stored(client):
    name = f"talk-{random.SystemRandom().getrandbits(64)}"
    fields = CAPITAL | {"max_output_tokens": 8, "conversation": name}
    counts = [client.responses.create(**fields).usage.input_tokens for _ in range(3)]
    assert counts[0] < counts[1] < counts[2]


def test_the_count_equals_the_usage_of_the_response(client):
    counted = client.responses.input_tokens.count(
        model="tiny", input="hello there", tools=[WEATHER], instructions="be brief"
    )
    made = client.responses.create(
        model="tiny",
        input="hello there",
        tools=[WEATHER],
        instructions="be brief",
        max_output_tokens=1,
    )
    assert counted.input_tokens == made.usage.input_tokens


def make_history():
    """Return a conversation that a summary can shorten."""
    history = []
    for index in range(5):
        question = f"Tell me about town {index}, its river and its market. " * 2
        answer = f"Town {index} has a market on Monday and a river with {index} bridges. " * 2
        history += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return [*history, {"role": "user", "content": "Which town was first?"}]


def test_a_compacted_history_can_be_continued(client, hermes):
    # This client's type for outputs does not allow user messages, although OpenAI's own
    # compactions contain them.
    with openai.OpenAI(base_url=f"{hermes.url}/v1", api_key="none") as loose:
        compacted = loose.responses.compact(
            model="smol",
            input=make_history(),
            extra_body={"keep_tokens": 60, "max_output_tokens": 16},
        )
    assert compacted.object == "response.compaction"
    *kept, compaction = json.loads(compacted.model_dump_json(warnings=False))["output"]
    assert [item["role"] for item in kept][-1] == "user"
    capsule = json.loads(base64.urlsafe_b64decode(compaction["encrypted_content"]))
    assert capsule["summary"]
    counted = client.responses.input_tokens
    before = counted.count(model="smol", input=make_history()).input_tokens
    after = counted.count(model="smol", input=[*kept, compaction]).input_tokens
    assert after == counted.count(model="smol", input=[compaction]).input_tokens < before


def test_a_threshold_compacts_before_the_answer(client):
    edit = [{"type": "compaction", "compact_threshold": 120}]
    response = client.responses.create(
        model="tiny",
        input=make_history(),
        temperature=0,
        max_output_tokens=4,
        context_management=edit,
    )
    assert [item.type for item in response.output] == ["compaction", "message"]
    count = client.responses.input_tokens.count(model="tiny", input=make_history())
    assert response.usage.input_tokens < count.input_tokens


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"background": True}, "background"),
        ({"truncation": "auto"}, "truncation"),
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"input": []}, "input"),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema"),
    ],
)
@pytest.mark.parametrize("streams", [True, False])
def test_refusals_raise_the_clients_exceptions_and_name_the_field(client, fields, param, streams):
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(**CAPITAL | fields, stream=streams)
    assert (caught.value.param, caught.value.type) == (param, "invalid_request_error")
