"""Tools, reasoning and structured output over the official client, on the models of `hermes`.

Its template supports tools and reasoning.
"""

from __future__ import annotations

import asyncio
import json

import jsonschema
import openai
import pydantic
import pytest

from tests.client import GREEDY, assert_same, connect, disturb
from tests.prompt import make_prompt
from tests.schema import check_answer, make_schemas, to_fields

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 12},
                "days": {"type": "integer", "minimum": 1, "maximum": 9},
            },
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}
TIME = {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object"}}}
ASK = [{"role": "user", "content": "What is the weather in Paris?"}]
NAMED = {"type": "function", "function": {"name": "get_weather"}}


class Animal(pydantic.BaseModel):
    """The schema of a structured answer."""

    model_config = pydantic.ConfigDict(extra="forbid")
    name: str = pydantic.Field(max_length=12)
    legs: int = pydantic.Field(ge=0, le=9)


@pytest.fixture
async def client(hermes):
    async with openai.AsyncOpenAI(base_url=f"{hermes.url}/v1", api_key="none") as made:
        yield made


def check_weather(call):
    jsonschema.validate(json.loads(call.function.arguments), WEATHER["function"]["parameters"])
    assert call.id.startswith("call_")
    assert call.function.name == "get_weather"


@pytest.mark.parametrize("model", ["smol", "tiny"])
async def test_a_named_function_is_called(client, model):
    reply = await client.chat.completions.create(
        model=model, messages=ASK, tools=[WEATHER, TIME], tool_choice=NAMED, temperature=0
    )
    choice = reply.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    assert len(choice.message.tool_calls) == 1
    check_weather(choice.message.tool_calls[0])


async def test_a_streamed_call_equals_the_whole_one(client):
    fields = {"messages": ASK, "tools": [WEATHER], "tool_choice": NAMED, "temperature": 0}
    whole = await client.chat.completions.create(model="tiny", **fields)
    async with client.chat.completions.stream(model="tiny", **fields) as stream:
        streamed = await stream.get_final_completion()
    ours, theirs = (reply.choices[0].message.tool_calls[0] for reply in (whole, streamed))
    assert ours.function.arguments == theirs.function.arguments
    assert streamed.choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize("limit", [2, 8, 20])
async def test_a_forced_call_cut_by_the_limit_has_no_markup_in_its_content(client, limit):
    fields = {"messages": ASK, "tools": [WEATHER], "tool_choice": NAMED, "temperature": 0}
    stream = await client.chat.completions.create(
        model="tiny", **fields, max_tokens=limit, stream=True
    )
    choices = [chunk.choices[0] async for chunk in stream if chunk.choices]
    assert "".join(choice.delta.content or "" for choice in choices) == ""
    assert choices[-1].finish_reason == "length"


async def test_a_required_choice_calls_a_declared_function(client):
    reply = await client.chat.completions.create(
        model="tiny", messages=ASK, tools=[WEATHER], tool_choice="required", max_tokens=600, seed=3
    )
    calls = reply.choices[0].message.tool_calls
    assert calls
    for call in calls[: None if reply.choices[0].finish_reason == "tool_calls" else -1]:
        check_weather(call)


async def test_a_tool_loop_completes(client):
    call = {"name": "get_weather", "arguments": '{"city":"Paris","days":1}'}
    history = [
        *ASK,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    ]
    reply = await client.chat.completions.create(
        model="smol", messages=history, tools=[WEATHER], temperature=0, max_tokens=6
    )
    assert reply.usage.completion_tokens > 0


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {**NAMED, "function": {"name": "x"}}}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": "sometimes"}, "tool_choice"),
        ({"tools": [TIME] * 129}, "tools"),
    ],
)
async def test_impossible_choices_are_refused(client, fields, param):
    with pytest.raises(openai.BadRequestError) as caught:
        await client.chat.completions.create(model="tiny", messages=ASK, **fields)
    assert param in (caught.value.param or caught.value.message)


async def test_parse_returns_a_pydantic_model(client):
    reply = await client.chat.completions.parse(
        model="smol", messages=ASK, response_format=Animal, temperature=0, max_tokens=60
    )
    assert isinstance(reply.choices[0].message.parsed, Animal)


async def test_the_stream_helpers_parse_answers_and_arguments(client):
    async with client.chat.completions.stream(
        model="tiny", messages=ASK, response_format=Animal, seed=1
    ) as stream:
        kinds = {event.type async for event in stream}
        answer = await stream.get_final_completion()
    assert isinstance(answer.choices[0].message.parsed, Animal)
    assert kinds >= {"content.delta", "content.done"}
    tools = [openai.pydantic_function_tool(Animal, name="add")]
    choice = {"type": "function", "function": {"name": "add"}}
    async with client.chat.completions.stream(
        model="tiny", messages=ASK, tools=tools, tool_choice=choice, seed=2
    ) as stream:
        deltas = [e async for e in stream if e.type == "tool_calls.function.arguments.delta"]
        answer = await stream.get_final_completion()
    (call,) = answer.choices[0].message.tool_calls
    assert isinstance(call.function.parsed_arguments, Animal)
    assert len(deltas) > 3
    assert "".join(delta.arguments_delta for delta in deltas) == call.function.arguments


async def test_json_object_gives_an_object(client):
    reply = await client.chat.completions.create(
        model="smol", messages=ASK, response_format={"type": "json_object"}, max_tokens=60,
        temperature=0,
    )  # fmt: skip
    assert isinstance(json.loads(reply.choices[0].message.content), dict)


async def test_reasoning_has_a_budget_and_a_field(client):
    reply = await client.chat.completions.create(
        model="smol",
        messages=ASK,
        temperature=0,
        max_tokens=24,
        extra_body={
            "chat_template_kwargs": {"enable_thinking": True},
            "thinking_budget_tokens": 6,
        },
    )
    message = reply.choices[0].message
    assert message.reasoning_content
    assert message.reasoning == message.reasoning_content
    assert "think>" not in message.reasoning_content + (message.content or "")


async def test_reasoning_up_to_the_limit_is_not_repeated_as_content(client):
    reply = await client.chat.completions.create(
        model="tiny",
        messages=ASK,
        temperature=0,
        max_tokens=8,
        extra_body={"chat_template_kwargs": {"enable_thinking": True}},
    )
    choice = reply.choices[0]
    assert choice.finish_reason == "length"
    assert choice.message.reasoning_content
    assert not choice.message.content
    assert choice.message.reasoning_only is True


async def test_a_budget_above_the_limit_is_refused(client):
    with pytest.raises(openai.BadRequestError, match="must be <= max_tokens"):
        await client.chat.completions.create(
            model="tiny", messages=ASK, max_tokens=4, extra_body={"thinking_budget_tokens": 5}
        )


async def test_a_grammar_applies_after_the_reasoning(client):
    reply = await client.chat.completions.parse(
        model="tiny",
        messages=ASK,
        response_format=Animal,
        seed=1,
        max_tokens=200,
        extra_body={
            "chat_template_kwargs": {"enable_thinking": True},
            "thinking_budget_tokens": 5,
        },
    )
    assert reply.choices[0].message.reasoning_content
    assert isinstance(reply.choices[0].message.parsed, Animal)


TEXT = {"type": "string", "minLength": 60, "maxLength": 80}
WRITING = {
    "type": "object",
    "properties": {"text": TEXT},
    "required": ["text"],
    "additionalProperties": False,
}
FORM = {"type": "json_schema", "json_schema": {"name": "x", "schema": WRITING}}
WRITE = {"type": "function", "function": {"name": "write", "parameters": WRITING}}
# A grammar, a grammar after reasoning that a budget ends, and a forced call.
GUIDED = (
    {"seed": 7, "response_format": FORM},
    {"seed": 8, "response_format": FORM, "enable_thinking": True, "thinking_budget": 30},
    {"seed": 9, "tools": [WRITE], "tool_choice": "required", "parallel_tool_calls": False},
)


async def test_constrained_answers_continue_after_their_worker_was_killed(hermes):
    async with connect(hermes.url, model="tiny", max_tokens=300, cache_prompt=False) as client:

        def ask_all():
            return [client.ask_stream(make_prompt(n), **fields) for n, fields in enumerate(GUIDED)]

        undisturbed = await asyncio.gather(*ask_all())
        reasons = [answer.finish_reason for answer in undisturbed]
        assert reasons == ["stop", "stop", "tool_calls"]
        assert_same(await disturb(client, ask_all(), [8], hermes.kill_worker), undisturbed)


# ----------------------------------------------------------------- generated schemas


async def answer(client, schema, index):
    """Return whether an answer finished; a finished one must be valid."""
    prompt = f"Give me an example, number {index}."
    status, reply = await client.post(prompt, seed=index, max_tokens=90, **to_fields(schema))
    assert status == 200, reply
    return check_answer(reply["choices"][0], schema)


async def answer_all(client, count, seed):
    """Return the share of answers that finished."""
    schemas = make_schemas(count, seed)
    limit = asyncio.Semaphore(16)

    async def one(index, schema):
        async with limit:
            return await answer(client, schema, index)

    finished = await asyncio.gather(*(one(i, schema) for i, schema in enumerate(schemas)))
    return sum(finished) / count


@pytest.mark.parametrize(("model", "count"), [("tiny", 200), ("smol", 20)])
async def test_finished_answers_are_valid_and_nearly_all_finish(hermes, model, count):
    async with connect(hermes.url, model=model) as client:
        assert await answer_all(client, count, seed=1) >= 0.9


async def test_rows_with_and_without_a_grammar_share_a_batch(hermes):
    (schema,) = make_schemas(1, seed=3)
    async with connect(hermes.url, model="tiny", max_tokens=40) as client:

        def plain(index):
            return client.ask(f"Tell me {index}.", **GREEDY, cache_prompt=False)

        alone = [await plain(index) for index in range(3)]
        for turn in range(3):
            mixed = await asyncio.gather(
                *(plain(index) for index in range(3)),
                *(answer(client, schema, 10 * turn + index) for index in range(4)),
            )
            assert_same(mixed[:3], alone)
            assert all(mixed[3:])
