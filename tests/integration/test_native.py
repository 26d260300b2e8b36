"""llama-server's routes on real tokenizers and models."""

from __future__ import annotations

import pytest

from tests.client import GREEDY
from tests.prompt import make_prompt

TEXT = "Hello ď 👩‍👩‍👧 world<|im_end|>"


@pytest.fixture
def post(client):
    """Return the answer of a POST that must succeed."""

    async def post(path, **fields):
        async with client.session.post(path, json=fields) as reply:
            assert reply.status == 200, await reply.text()
            return await reply.json()

    return post


@pytest.mark.parametrize("model", ["llama", "bytes"])
async def test_detokenize_reverses_tokenize(post, model):
    tokens = (await post("/tokenize", model=model, content=TEXT))["tokens"]
    assert await post("/detokenize", model=model, tokens=tokens) == {"content": TEXT}
    pieces = (await post("/tokenize", model=model, content=TEXT, with_pieces=True))["tokens"]
    assert [piece["id"] for piece in pieces] == tokens
    assert b"".join(_bytes(p["piece"]) for p in pieces).decode() == TEXT
    # Read as text, the control token is several tokens.
    plain = await post("/tokenize", model=model, content=TEXT, parse_special=False)
    assert len(plain["tokens"]) > len(tokens)


def _bytes(piece):
    return piece.encode() if isinstance(piece, str) else bytes(piece)


async def test_an_id_outside_the_vocabulary_is_named(client):
    body = {"model": "bytes", "tokens": [5, 10**12, -1]}
    async with client.session.post("/detokenize", json=body) as reply:
        error = (await reply.json())["error"]
        assert (reply.status, error["type"]) == (500, "server_error")
    assert error["message"] == "token id 1000000000000 is out of vocabulary range (vocab_size 261)"


@pytest.mark.parametrize("model", ["llama", "bytes"])
async def test_the_tokens_of_a_stream_detokenize_to_its_text(client, post, model):
    body = {"model": model, "prompt": make_prompt(3), "n_predict": 40, "seed": 4}
    whole = await post("/completion", **body, return_tokens=True, cache_prompt=False)
    stream = {"stream": True, "timings_per_token": True, "cache_prompt": False}
    *events, last = [event async for event in client.events("/completion", body | stream)]
    tokens = [token for event in events for token in event["tokens"]]
    assert "".join(event["content"] for event in events) == whole["content"]
    assert tokens == whole["tokens"]
    assert (await post("/detokenize", model=model, tokens=tokens))["content"] == whole["content"]
    times = [event["timings"]["predicted_ms"] for event in events]
    assert times == sorted(times)
    assert [event["timings"]["predicted_n"] for event in events][-1] == len(tokens)
    assert (last["tokens_predicted"], last["stop_type"]) == (40, "limit")


async def test_cached_tokens_are_not_counted_as_evaluated(post):
    prompt = make_prompt(4, 90)
    cold = await post("/completion", prompt=prompt, n_predict=2, **GREEDY)
    warm = await post("/completion", prompt=prompt, n_predict=2, **GREEDY)
    assert cold["tokens_cached"] == 0
    assert warm["content"] == cold["content"]
    timings = warm["timings"]
    assert timings["cache_n"] == warm["tokens_cached"] > 60
    assert timings["prompt_n"] == warm["tokens_evaluated"] - timings["cache_n"] >= 1


async def test_a_prompt_of_tokens_equals_a_prompt_of_text(post):
    text = make_prompt(5)
    tokens = (await post("/tokenize", content=text))["tokens"]
    fields = {"n_predict": 12, "cache_prompt": False, **GREEDY}
    middle = len(tokens) // 2
    tail = (await post("/detokenize", tokens=tokens[middle:]))["content"]
    answers = [
        await post("/completion", prompt=prompt, **fields)
        for prompt in (text, tokens, [text], [*tokens[:middle], tail])
    ]
    assert {answer["content"] for answer in answers} == {answers[0]["content"]}
    assert {answer["prompt"] for answer in answers} == {text}


async def test_post_sampling_probabilities_cover_the_remaining_tokens(post):
    body = {"prompt": make_prompt(6), "n_predict": 8, "n_probs": 5, "seed": 1}
    sampling = {"temperature": 1.3, "top_k": 3, "top_p": 1.0, "min_p": 0.0}
    left = await post("/completion", **body, **sampling, post_sampling_probs=True)
    for token in left["completion_probabilities"]:
        assert sum(top["prob"] for top in token["top_probs"]) == pytest.approx(1, abs=1e-4)
        assert len(token["top_probs"]) == 3
        assert token["id"] in [top["id"] for top in token["top_probs"]]
    model = await post("/completion", **body, **sampling)
    assert model["content"] == left["content"]
    for token in model["completion_probabilities"]:
        assert len(token["top_logprobs"]) == 5


async def test_infill_uses_the_prefix_and_the_suffix(post, client):
    fields = {"n_predict": 5, **GREEDY}
    gap = {"model": "bytes", "input_prefix": "def f(", "input_suffix": "):", "prompt": "x"}
    answer = await post("/infill", **gap, **fields)
    prompt = "<|fim_prefix|>def f(x<|fim_suffix|>):<|fim_middle|>"
    assert answer["prompt"] == prompt
    same = await post("/completion", model="bytes", prompt=prompt, **fields)
    assert answer["content"] == same["content"]
    extra = {"input_extra": [{"text": "<|fim_middle|>"}]}
    async with client.session.post("/infill", json=gap | extra) as reply:
        assert reply.status == 400
        assert (await reply.json())["error"]["param"] == "input_extra[0].text"
    async with client.session.post("/infill", json={}) as reply:
        assert reply.status == 501


async def test_grammars_and_schemas_are_enforced(post):
    body = {"prompt": make_prompt(7), "n_predict": 40, "seed": 2}
    answer = await post("/completion", **body, grammar='root ::= " yes" | " no"')
    assert answer["content"] in (" yes", " no")
    assert answer["stop_type"] == "eos"
    answer = await post("/completion", **body, json_schema={"enum": ["a", "b"]})
    assert answer["content"] in ('"a"', '"b"')


async def test_the_progress_of_a_long_prompt_is_reported(client):
    body = {"prompt": make_prompt(8, 1500), "n_predict": 1, "stream": True, "cache_prompt": False}
    *events, last = [
        event async for event in client.events("/completion", body | {"return_progress": True})
    ]
    progress = [event["prompt_progress"] for event in events if "prompt_progress" in event]
    assert len(progress) >= 2
    total = last["tokens_evaluated"]
    assert all(step["total"] == total and step["cache"] == 0 for step in progress)
    done = [step["processed"] for step in progress]
    assert done == sorted(set(done))
    assert done[-1] < total


async def test_props_are_those_of_the_requested_model(client):
    status, report = await client.get("/props?model=bytes")
    assert (status, report["model_alias"], report["eos_token"]) == (200, "bytes", "<|im_end|>")
    settings = report["default_generation_settings"]
    assert (settings["n_predict"], settings["temperature"]) == (-1, 0.8)
    assert report["total_slots"] == 8


async def test_a_stream_reports_its_slot(client):
    body = {"prompt": make_prompt(9), "n_predict": 400, "stream": True}
    events = client.events("/completion", body)
    first = await anext(events)
    assert (await client.slots())[first["id_slot"]] == "decoding"
    await events.aclose()


async def test_a_history_with_a_call_that_was_cut_is_shown_and_answered(post):
    function = {"name": "weather", "arguments": '{"city": "Par'}
    call = {"id": None, "type": "function", "function": function}
    messages = [
        {"role": "system", "content": "one"},
        {"role": "developer", "content": "two"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": None, "content": "bad"},
        {"role": "system", "content": "three"},
    ]
    shown = (await post("/apply-template", model="llama", messages=messages))["prompt"]
    for text in ("one", "two", "weather", '{"city": "Par', "bad", "three"):
        assert text in shown
    fields = GREEDY | {"max_tokens": 2, "model": "llama"}
    answer = await post("/v1/chat/completions", messages=messages, **fields)
    assert answer["usage"]["prompt_tokens"] > 10
