"""Embeddings and reranking against the whole server, with the real starter model.

The reranker is tiny and random; its scores are compared with a plain forward pass.
"""

from __future__ import annotations

import asyncio
import json

import numpy as np
import openai
import pytest
from tokenizers import Tokenizer

from shared.pb import worker_pb2, worker_pb2_grpc
from shared.rpc import open_channel
from tests import checkpoint, encoder_checkpoint
from tests.client import connect
from tests.encoder_reference import Reference
from tests.example import read_pages, run_command
from tests.server import ROOT, serve_fleet
from tests.wait import wait_for

STARTER = ROOT / "models" / "all-MiniLM-L6-v2"
TEXTS = ["The cat sits on the mat.", "A feline rests on a rug.", "Markets fell sharply today."]
LONGEST_TOKENS = 256


@pytest.fixture(scope="module")
def cross(tmp_path_factory):
    return encoder_checkpoint.build(tmp_path_factory.mktemp("m") / "cross", "bert", reranks=True)


@pytest.fixture(scope="module")
def library(make_folder, cross):
    """A server with one worker of each kind; tests leave all of them alive."""
    workers = [
        {"name": "text", "model": str(checkpoint.build("llama"))},
        {"name": "embed", "kind": "embed", "model": str(STARTER)},
        {"name": "cross", "kind": "rerank", "model": str(cross)},
    ]
    with serve_fleet(make_folder(), *workers) as server:
        yield server


@pytest.fixture(scope="module")
async def http(library):
    async with connect(library.url) as client:
        yield client.session


@pytest.fixture
async def official(library):
    async with openai.AsyncOpenAI(
        base_url=f"{library.url}/v1", api_key="none", max_retries=0
    ) as client:
        yield client


@pytest.fixture(scope="module")
def reference():
    return Reference(STARTER)


@pytest.fixture(scope="module")
def tokenizer():
    found = Tokenizer.from_file(str(STARTER / "tokenizer.json"))
    found.no_padding()
    found.enable_truncation(LONGEST_TOKENS)
    return found


async def post(http, path, **body):
    async with http.post(path, data=json.dumps(body)) as reply:
        return reply.status, await reply.json()


async def embed(http, texts, **fields):
    """Return the vectors of texts, and the usage."""
    status, reply = await post(http, "/v1/embeddings", input=texts, **fields)
    assert status == 200, reply
    return np.array([row["embedding"] for row in reply["data"]]), reply["usage"]


async def test_the_official_client_gets_the_vectors_of_the_published_model(
    official, reference, tokenizer
):
    # Without an encoding format the client asks for base64.
    made = await official.embeddings.create(model=STARTER.name, input=TEXTS)
    assert made.model == STARTER.name
    ids = [tokenizer.encode(text).ids for text in TEXTS]
    assert made.usage.prompt_tokens == made.usage.total_tokens == sum(map(len, ids))
    for row, each in zip(made.data, ids, strict=True):
        assert np.dot(row.embedding, reference.pooled(each, "mean")) >= 0.9999
    plain = await official.embeddings.create(
        model=STARTER.name, input=TEXTS, encoding_format="float"
    )
    assert [row.embedding for row in plain.data] == [
        pytest.approx(row.embedding, abs=1e-6) for row in made.data
    ]


async def test_the_official_client_raises_the_matching_errors(official):
    with pytest.raises(openai.BadRequestError, match="dimensions must be between 1 and 384"):
        await official.embeddings.create(model=STARTER.name, input="x", dimensions=385)
    with pytest.raises(openai.BadRequestError, match=r"input\[0\] contains token id 30522"):
        await official.embeddings.create(model=STARTER.name, input=[30522])
    with pytest.raises(openai.BadRequestError, match="model must be"):
        await official.embeddings.create(model="text-embedding-3-small", input="x")


async def test_token_ids_and_texts_give_the_same_vectors(http, tokenizer):
    ids = [tokenizer.encode(text).ids for text in TEXTS]
    vectors, usage = await embed(http, TEXTS)
    of_ids, id_usage = await embed(http, ids)
    assert np.abs(vectors - of_ids).max() < 1e-4
    assert usage == id_usage
    one, _ = await embed(http, ids[0])
    assert np.abs(one[0] - vectors[0]).max() < 1e-4


async def test_fewer_dimensions_are_the_leading_ones_normalised(http):
    whole, _ = await embed(http, TEXTS)
    part, _ = await embed(http, TEXTS, dimensions=64)
    expected = whole[:, :64] / np.linalg.norm(whole[:, :64], axis=1, keepdims=True)
    assert np.abs(part - expected).max() < 1e-5
    raw, _ = await embed(http, TEXTS, embd_normalize=-1)
    assert np.linalg.norm(raw, axis=1).min() > 1.5


@pytest.mark.parametrize("path", ["/embedding", "/embeddings"])
async def test_the_native_routes_nest_their_vectors(http, path):
    status, reply = await post(http, path, content=TEXTS, encoding_format="base64")
    assert status == 200
    vectors, _ = await embed(http, TEXTS)
    assert [row["index"] for row in reply] == [0, 1, 2]
    nested = np.array([row["embedding"] for row in reply])
    assert nested.shape == (3, 1, 384)
    assert np.abs(nested[:, 0] - vectors).max() < 1e-4


async def test_a_vector_does_not_depend_on_the_other_texts(http, reference):
    words = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog"]
    lengths = (1, 5, 30, 125, 126, 127, 158, 254, 255, 300)
    texts = [" ".join((words * 40)[:length]) for length in lengths]
    together, usage = await embed(http, texts)
    assert np.isfinite(together).all()
    assert usage["prompt_tokens"] == sum(min(length + 2, LONGEST_TOKENS) for length in lengths)
    alone = [(await embed(http, text))[0][0] for text in texts]
    assert np.abs(together - np.array(alone)).max() < 1e-4


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ("x" * 100_000, 200),
        (" " * 100_000, 200),
        ("\0\u202e🙂\ufffd", 200),
        (["a"] * 300, 200),
        ([[0], [30521]], 200),
        ("\ud800", 200),
        ("", 400),
        ([[-1]], 400),
        ([["a"]], 400),
        ([{"type": "text"}], 400),
        (None, 400),
    ],
    ids=lambda value: repr(value)[:20],
)
async def test_unusual_input_is_answered_or_refused(http, given, status):
    got, reply = await post(http, "/v1/embeddings", input=given)
    assert got == status, reply
    if status == 200:
        assert np.isfinite([row["embedding"] for row in reply["data"]]).all()
    else:
        assert reply["error"]["type"] == "invalid_request_error"


# ------------------------------------------------------------------ reranking

QUERY = "the bank of a river"
DOCUMENTS = ["water flows", "money", "deep river bank " * 90, "the of a"]


def score(folder, query, document):
    """Return the score of a pair by the plain forward pass."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(encoder_checkpoint.POSITIONS)
    pair = tokenizer.encode(query, document)
    return Reference(folder).score(pair.ids, pair.type_ids)


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank"])
async def test_the_format_of_cohere_is_served(http, cross, path):
    # Headers of Cohere's clients, beside Authorization.
    body = {"model": "cross", "query": QUERY, "documents": DOCUMENTS, "top_n": 3}
    status, reply = await post(http, path, **body, return_documents=False)
    assert status == 200
    scores = [score(cross, QUERY, document) for document in DOCUMENTS]
    order = sorted(range(len(scores)), key=lambda index: -scores[index])[:3]
    assert [row["index"] for row in reply["results"]] == order
    got = [row["relevance_score"] for row in reply["results"]]
    assert got == pytest.approx([scores[index] for index in order], abs=1e-5)
    assert all(row.keys() == {"index", "relevance_score"} for row in reply["results"])
    assert reply["usage"]["prompt_tokens"] == reply["usage"]["total_tokens"] > 0


@pytest.mark.parametrize("path", ["/rerank", "/reranking", "/v1/reranking"])
async def test_the_format_of_tei_is_served(http, path):
    body = {"query": QUERY, "texts": DOCUMENTS, "raw_scores": False, "return_text": True}
    status, reply = await post(http, path, **body, truncate=True)
    assert status == 200
    assert [row["text"] for row in reply] == [DOCUMENTS[row["index"]] for row in reply]
    scores = [row["score"] for row in reply]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= each <= 1 for each in scores)


async def test_equal_documents_keep_the_order_of_the_request(http):
    # More than fit into one pass, of different lengths.
    documents = ["money", "deep river bank"] * 11
    _, reply = await post(http, "/v1/rerank", query=QUERY, documents=documents)
    by_score = {}
    for row in reply["results"]:
        by_score.setdefault(row["relevance_score"], []).append(row["index"])
    assert sorted(by_score.values()) == [[*range(0, 22, 2)], [*range(1, 22, 2)]]


async def test_a_cross_encoder_refuses_an_instruction(http):
    status, reply = await post(
        http, "/v1/rerank", query=QUERY, documents=DOCUMENTS, instruction="find money"
    )
    assert (status, reply["error"]["param"]) == (400, "instruction")


# ------------------------------------------------------------------ several workers


async def test_a_stream_embeddings_and_a_rerank_succeed_at_the_same_time(library, http):
    async with connect(library.url) as client:
        chat = asyncio.create_task(client.ask_stream("hello", max_tokens=40))
        calls = [embed(http, [text] * 2) for text in TEXTS * 7]
        rerank = post(http, "/rerank", query=QUERY, documents=DOCUMENTS)
        (status, _), *_ = await asyncio.gather(rerank, *calls)
        assert status == 200
        assert (await chat).finish_reason == "length"


async def test_every_worker_is_listed(http):
    async with http.get("/health") as reply:
        rows = (await reply.json())["workers"]
    assert [(row["name"], row["kind"]) for row in rows] == [
        ("text", "text"),
        ("embed", "embed"),
        ("cross", "rerank"),
    ]
    async with http.get("/v1/models") as reply:
        names = {row["id"] for row in (await reply.json())["data"]}
    assert {STARTER.name, "cross"} <= names


async def test_a_small_call_does_not_wait_for_a_large_one(library, http):
    large = asyncio.create_task(embed(http, [f"text number {n}" for n in range(2048)]))
    await until_computing(library)
    await embed(http, "small")
    assert not large.done()
    large.cancel()


async def test_a_call_is_repeated_after_its_worker_was_killed(library, http):
    call = asyncio.create_task(embed(http, [f"text number {n}" for n in range(300)]))
    await until_computing(library)
    (worker,) = wait_for(lambda: library.find("workers.embed", "embed"))
    worker.kill()
    vectors, _ = await call
    assert vectors.shape == (300, 384)
    assert np.isfinite(vectors).all()


async def until_computing(library):
    """Wait until the embed worker reports a call in progress."""
    async with open_channel(library.address(1)) as channel:
        pulse = worker_pb2_grpc.WorkerStub(channel).Pulse(worker_pb2.PulseRequest())
        async with asyncio.timeout(30):
            while not (await pulse.read()).slots_active:
                pass
        pulse.cancel()


async def test_the_examples_of_the_documentation_work(library):
    examples = read_pages("embed", "rerank")
    assert {example.kind for example in examples} == {"embed", "rerank"}
    for example in examples:
        outcome = await asyncio.to_thread(run_command, example.text, library.url)
        assert outcome.status == example.expected_status == 200, outcome.body
