"""Invalid input gets an error envelope that names the fault, and never crashes the server."""

from __future__ import annotations

import http.client
import json

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.client import CHAT, GREEDY
from tests.prompt import make_prompt
from tests.wait import until

USER = {"role": "user", "content": "Hi"}
FIELDS = GREEDY | {"max_tokens": 2}

# Body as text → the field named in the error, or None if no field is invalid.
BROKEN = {
    "": None,
    "{": None,
    "not json": None,
    "[]": None,
    '"text"': None,
    "null": None,
    '{"messages": [{"role": "user", "content": "Hi"}], "temperature": NaN}': None,
    '{"messages": [{"role": "user", "content": "Hi"}], "temperature": 1e999}': None,
    '{"messages": [{"role": "user", "content": "Hi"}]} trailing': None,
    "{}": "messages",
    '{"messages": null}': "messages",
    '{"messages": {}}': "messages",
    '{"messages": "Hi"}': "messages",
    '{"messages": []}': "messages",
    '{"messages": [null]}': "messages[0]",
    '{"messages": [{"content": "Hi"}]}': "messages[0].role",
    '{"messages": [{"role": "wizard", "content": "Hi"}]}': "messages[0].role",
    '{"messages": [{"role": "user", "content": 7}]}': "messages[0].content",
    '{"messages": [{"role": "user", "content": ""}]}': "messages",
    '{"messages": [{"role": "user", "content": [{"type": "smell"}]}]}': "messages[0].content[0]",
}

WRONG_FIELDS = {
    "temperature": ["warm", -1, [], 1e300],
    "top_p": ["most", 1.5, -0.1],
    "top_k": ["few", 1.5, -2],
    "min_p": [2],
    "typical_p": [0, 1.1],
    "top_n_sigma": [-1],
    "repetition_penalty": [0, -1],
    "frequency_penalty": ["much", 1e300],
    "xtc_probability": [1.5],
    "xtc_threshold": [0.6],
    "dry_multiplier": [-1],
    "max_tokens": [0, -2, 1.5, "many", 10**400],
    "n_predict": [-7],
    "seed": [-2, 2**64, 1.5, "lucky"],
    "stop": [5, [5], {}],
    "logit_bias": [[5], {"x": 1}, {"-1": 1}, {"1": "a"}, 7],
    "logprobs": ["yes", 3],
    "top_logprobs": [21, -1, "some"],
    "stream": ["yes", 1],
    "stream_options": ["usage", 7],
    "cache_prompt": ["no", 0],
    "model": [7, ["llama"]],
    "n": [2, 0],
}


async def check_refused(reply, name):
    """Check that a reply is a 400 in OpenAI's format that names a field."""
    body = await reply.json()
    assert reply.status == 400, body
    error = body["error"]
    assert error["type"] == "invalid_request_error"
    assert error["message"]
    if name is not None:
        assert error["param"].startswith(name), error


@pytest.mark.parametrize("body", BROKEN, ids=repr)
async def test_a_malformed_body_is_refused_with_the_field(client, body):
    async with client.session.post(CHAT, data=body.encode()) as reply:
        await check_refused(reply, BROKEN[body])


@pytest.mark.parametrize("name", WRONG_FIELDS)
async def test_an_invalid_value_is_refused_with_the_field(client, name):
    for value in WRONG_FIELDS[name]:
        body = {"messages": [USER], **FIELDS, name: value}
        if name == "top_logprobs":
            body["logprobs"] = True
        async with client.session.post(CHAT, json=body) as reply:
            await check_refused(reply, name)


async def test_bytes_that_are_not_utf8_are_refused(client):
    for data in (b"\xff\xfe", b'{"messages": [{"role": "user", "content": "\xc3"}]}', b"\x00" * 99):
        async with client.session.post(CHAT, data=data) as reply:
            await check_refused(reply, None)


async def test_deep_nesting_is_refused(client):
    deep = "[" * 100_000 + "]" * 100_000
    bodies = [
        f'{{"messages": [{{"role": "user", "content": "Hi"}}], "metadata": {deep}}}',
        f'{{"messages": {deep}}}',
        deep,
    ]
    for body in bodies:
        async with client.session.post(CHAT, data=body) as reply:
            assert reply.status in (200, 400)
            assert (await reply.json()).keys() & {"error", "choices"}


async def test_values_that_only_the_worker_can_check_are_refused(client):
    wrong = [({"logit_bias": {"60000": 1}}, "logit_bias"), ({"stop": ["x"] * 300}, "stop")]
    for fields, name in wrong:
        status, body = await client.post("Hi", **FIELDS, **fields)
        assert (status, body["error"]["param"]) == (400, name)
    status, body = await client.post("x" * 100_000)
    assert status == 400
    assert body["error"]["code"] == "context_length_exceeded"


async def test_unusual_but_valid_text_is_answered(client):
    oddities = [
        "\0",
        "<|im_end|><|im_start|>system",
        "👩‍👩‍👧‍👦" * 20,
        "\u202e",
        "a" * 5_000,
        " \n\t x",
    ]
    for text in oddities:
        answer = await client.ask(text, **FIELDS)
        assert answer.usage["completion_tokens"] == 2
    answer = await client.ask("Hi", **FIELDS, unheard_of={"a": [1]}, user=None, stop=None)
    assert answer.finish_reason == "length"


async def test_unknown_paths_and_methods_get_error_envelopes(client):
    for method, path, status in (
        ("GET", "/v1/nothing", 404),
        ("GET", "/%00", 404),
        ("GET", CHAT, 405),
        ("DELETE", CHAT, 405),
        ("POST", "/health", 405),
    ):
        async with client.session.request(method, path) as reply:
            assert reply.status == status
            assert (await reply.json())["error"]["message"]


# ------------------------------------------------------------------ generated bodies

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
texts = st.text(max_size=40)
parts = st.lists(st.builds(lambda text: {"type": "text", "text": text}, texts), max_size=2)
message = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["system", "developer", "user", "assistant", "tool"]),
        "content": texts | parts | st.none(),
    },
    optional={"name": texts, "reasoning_content": texts, "tool_call_id": texts},
)
share = st.floats(0, 1)
whole = st.integers(0, 2**40)
VALID = {
    "temperature": st.floats(0, 5),
    "top_p": share,
    "min_p": share,
    "typical_p": st.floats(0.01, 1),
    "top_k": whole,
    "top_n_sigma": st.floats(0, 9),
    "p_less": st.booleans(),
    "repetition_penalty": st.floats(0.01, 1e9),
    "repetition_context_size": whole,
    "frequency_penalty": st.floats(-1e9, 1e9),
    "presence_penalty": st.floats(-1e9, 1e9),
    "dry_multiplier": st.floats(0, 1e9),
    "dry_base": st.floats(0.01, 1e9),
    "dry_sequence_breakers": st.lists(texts | st.integers(0, 300), max_size=3),
    "xtc_probability": share,
    "xtc_threshold": st.floats(0, 0.5),
    "logit_bias": st.dictionaries(st.integers(0, 257).map(str), st.floats(-1e9, 1e9), max_size=3),
    "seed": st.integers(-1, 2**64 - 1),
    "stop": texts | st.lists(texts, max_size=4),
    "max_pattern_size": whole,
    "min_count": whole,
    "logprobs": st.booleans(),
    "stream": st.booleans(),
    "cache_prompt": st.booleans(),
    "user": texts,
}
WILD = [*VALID, "messages", "tools", "tool_choice", "response_format", "extra_body", "n"]
bodies = st.builds(
    lambda messages, valid, wild: {
        "messages": [*messages, USER],
        **valid,
        **wild,
        "max_tokens": 2,
        "model": "bytes",
    },
    st.lists(message, max_size=3),
    st.fixed_dictionaries({}, optional=VALID),
    st.just({}) | st.dictionaries(st.sampled_from(WILD), anything, max_size=2),
)

# 501: not supported by the model or this server.
EXPECTED = {200, 400, 501}


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(bodies)
def test_any_body_is_answered_or_refused(fleet, body):
    connection = http.client.HTTPConnection("127.0.0.1", fleet.port, timeout=20)
    try:
        connection.request("POST", CHAT, json.dumps(body))
        reply = connection.getresponse()
        content = reply.read()
    finally:
        connection.close()
    event(f"status {reply.status}")
    assert reply.status in EXPECTED, content
    if reply.status == 200 and body.get("stream") is True:
        assert content.endswith(b"data: [DONE]\n\n")
        assert b'"error"' not in content
    elif reply.status == 200:
        assert json.loads(content)["choices"]
    else:
        assert json.loads(content)["error"]["type"] in (
            "invalid_request_error",
            "not_supported_error",
        )


async def test_no_request_is_left_running_afterwards(fleet, client):
    await until(client.is_idle, 3)
    log = fleet.log.read_text()
    assert "Traceback" not in log
    assert "restart 1" not in log
    assert (await client.ask(make_prompt(1), **FIELDS)).usage["completion_tokens"] == 2
