"""The official OpenAI client against the whole server: formats, limits, errors."""

from __future__ import annotations

import openai
import pytest

from tests.integration.conftest import FAMILIES
from tests.prompt import make_prompt

FIELDS = {
    "model": "llama",
    "temperature": 0,
    "max_tokens": 24,
    "messages": [{"role": "user", "content": make_prompt(1)}],
    "extra_body": {"cache_prompt": False},
}


@pytest.fixture
def sync_client(fleet):
    with openai.OpenAI(base_url=f"{fleet.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
async def async_client(fleet):
    async with openai.AsyncOpenAI(
        base_url=f"{fleet.url}/v1", api_key="none", max_retries=0
    ) as client:
        yield client


async def stream(client, **fields):
    """Return the chunks of a stream."""
    opened = await client.chat.completions.create(**FIELDS | fields, stream=True)
    return [chunk async for chunk in opened]


def join(chunks):
    return "".join(c.delta.content or "" for chunk in chunks for c in chunk.choices)


async def test_both_clients_and_both_modes_give_the_same_text(sync_client, async_client):
    whole = sync_client.chat.completions.create(**FIELDS)
    other = await async_client.chat.completions.create(**FIELDS)
    text = whole.choices[0].message.content
    assert text == other.choices[0].message.content == join(await stream(async_client))
    with sync_client.chat.completions.create(**FIELDS, stream=True) as chunks:
        assert join(chunks) == text
    assert whole.choices[0].finish_reason == "length"
    assert whole.usage.completion_tokens == 24
    assert whole.choices[0].logprobs is None


async def test_usage_is_last_and_only_sent_on_request(async_client):
    assert all(chunk.usage is None for chunk in await stream(async_client))
    *chunks, last = await stream(async_client, stream_options={"include_usage": True})
    assert last.choices == []
    assert last.usage.completion_tokens == 24
    assert all(chunk.usage is None for chunk in chunks)
    reasons = [c.finish_reason for chunk in chunks for c in chunk.choices if c.finish_reason]
    assert reasons == ["length"]
    assert chunks[0].choices[0].delta.role == "assistant"


async def test_no_part_of_a_stop_string_over_several_tokens_is_sent(sync_client, async_client):
    text = sync_client.chat.completions.create(**FIELDS).choices[0].message.content
    for start, size in ((20, 3), (40, 12), (61, 25)):
        stop = text[start : start + size]
        expected = text[: text.index(stop)]
        choice = sync_client.chat.completions.create(**FIELDS, stop=[stop, "never"]).choices[0]
        assert (choice.message.content, choice.finish_reason) == (expected, "stop")
        chunks = await stream(async_client, stop=stop)
        assert join(chunks) == expected
        assert expected.startswith(join(chunks[: len(chunks) // 2]))


@pytest.mark.parametrize("top", [0, 4])
async def test_logprobs_have_one_entry_per_token_in_both_modes(sync_client, async_client, top):
    fields = {"logprobs": True, "top_logprobs": top}
    choice = sync_client.chat.completions.create(**FIELDS, **fields).choices[0]
    entries = choice.logprobs.content
    assert len(entries) == 24
    assert b"".join(bytes(entry.bytes) for entry in entries).decode() == choice.message.content
    for entry in entries:
        assert entry.logprob <= 0
        assert len(entry.top_logprobs) == top
        # Greedy: the sampled token is the likeliest.
        assert not top or entry.top_logprobs[0].token == entry.token
    chunks = await stream(async_client, **fields)
    streamed = [
        e for chunk in chunks for c in chunk.choices if c.logprobs for e in c.logprobs.content
    ]
    assert [entry.token for entry in streamed] == [entry.token for entry in entries]


RAW = {"model": "llama", "prompt": make_prompt(2), "temperature": 0, "max_tokens": 24}


async def test_text_completions_give_the_same_text_in_both_modes(sync_client, async_client):
    whole = sync_client.completions.create(**RAW, extra_body={"cache_prompt": False})
    (choice,) = whole.choices
    assert (choice.finish_reason, whole.usage.completion_tokens) == ("length", 24)
    assert (whole.object, choice.logprobs) == ("text_completion", None)
    options = {"include_usage": True}
    opened = await async_client.completions.create(**RAW, stream=True, stream_options=options)
    *chunks, last = [chunk async for chunk in opened]
    assert "".join(chunk.choices[0].text for chunk in chunks) == choice.text
    assert [c.choices[0].finish_reason for c in chunks] == [None] * (len(chunks) - 1) + ["length"]
    assert (last.choices, last.usage.completion_tokens) == ([], 24)


def test_text_completions_have_their_own_format_of_logprobs(sync_client):
    (choice,) = sync_client.completions.create(**RAW, logprobs=3).choices
    found = choice.logprobs
    assert "".join(found.tokens) == choice.text
    assert len(found.tokens) == len(found.token_logprobs) == len(found.top_logprobs) == 24
    for offset, token, value, top in zip(
        found.text_offset, found.tokens, found.token_logprobs, found.top_logprobs, strict=True
    ):
        assert choice.text[offset:].startswith(token)
        # Greedy: the sampled token is the likeliest.
        assert (len(top), max(top.values())) == (3, value)


@pytest.mark.parametrize(
    ("fields", "param"),
    [({"prompt": " "}, "prompt"), ({"logprobs": 6}, "logprobs"), ({"best_of": 2}, "best_of")],
    ids=str,
)
def test_text_completions_name_the_invalid_field(sync_client, fields, param):
    with pytest.raises(openai.BadRequestError) as caught:
        sync_client.completions.create(**RAW | fields)
    assert caught.value.param == param


def test_models_are_listed(sync_client):
    assert [model.id for model in sync_client.models.list()] == list(FAMILIES)


@pytest.mark.parametrize(
    ("fields", "kind", "param"),
    [
        ({"temperature": -1}, openai.BadRequestError, "temperature"),
        ({"messages": []}, openai.BadRequestError, "messages"),
        ({"max_tokens": 0}, openai.BadRequestError, "max_tokens"),
        ({"top_logprobs": 3}, openai.BadRequestError, "top_logprobs"),
        ({"n": 2}, openai.BadRequestError, "n"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else None,
)
@pytest.mark.parametrize("streams", [True, False])
async def test_errors_raise_the_clients_exceptions_and_name_the_field(
    async_client, fields, kind, param, streams
):
    with pytest.raises(kind) as caught:
        await async_client.chat.completions.create(**FIELDS | fields, stream=streams)
    assert caught.value.param == param
    assert caught.value.type == "invalid_request_error"


def test_an_unknown_path_raises_not_found(sync_client):
    with pytest.raises(openai.NotFoundError):
        sync_client.get("/nothing", cast_to=object)
