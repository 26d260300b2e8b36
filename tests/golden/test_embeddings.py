"""Golden cases of embeddings and rerank requests: bodies and complete responses.

A case is a line of a file: the path's form, the body as it is sent, and either the request that
reaches the worker with the answer of a fixed reply, or the error.
"""

from __future__ import annotations

import array
import json
from pathlib import Path

import pytest
from google.protobuf.json_format import MessageToDict

from gateway.dialects import embeddings, rerank
from gateway.dialects.openai import errors
from shared.errors import ServiceError
from shared.pb import embed_pb2 as pb
from shared.pb import worker_pb2

FOLDER = Path(__file__).parent
CARD = worker_pb2.ModelCard(
    name="m", vocab_tokens=100, encoder=worker_pb2.EncoderCard(dimensions=3, takes_instruction=True)
)
CROSS_ENCODER = worker_pb2.ModelCard(name="r", encoder=worker_pb2.EncoderCard())
GENERATIVE = worker_pb2.ModelCard(name="r", encoder=worker_pb2.EncoderCard(takes_instruction=True))


def read_cases(name):
    lines = (FOLDER / name).read_text().splitlines()
    return [pytest.param(case, id=case["name"]) for case in map(json.loads, lines)]


def answer_embeddings(form, body):
    """Return the request for the worker and the answer."""
    fields = embeddings.parse(body, is_native=form == "native")
    request = embeddings.build(fields, CARD)
    values = array.array("f", [0.5, -1.25, 1e-8] * len(request.items))
    reply = pb.EmbedReply(vectors=values.tobytes(), dimensions=3, prompt_tokens=5)
    if form == "native":
        return request, b"".join(embeddings.render_native(reply))
    return request, b"".join(embeddings.render(fields, "m", reply))


def answer_rerank(form, body):
    parsed = rerank.parse(body)
    request = rerank.build(parsed, GENERATIVE if form == "generative" else CROSS_ENCODER)
    scores = [0.25, 0.75, 0.25, 0.5][: len(request.documents)]
    reply = pb.RerankReply(scores=scores, prompt_tokens=9)
    return request, rerank.render(parsed, "r", reply)


def run(answer, case):
    """Return the expected values of a case."""
    try:
        request, body = answer(case["form"], case["body"].encode())
    except ServiceError as failure:
        reply = errors.error(failure)
        return {"status": reply.status, "answer": json.loads(reply.body)}
    request.ClearField("arrival_ns")
    return {"request": MessageToDict(request), "answer": json.loads(body)}


@pytest.mark.parametrize("case", read_cases("embeddings/cases.jsonl"))
def test_an_embeddings_body_is_parsed_and_rendered(case):
    expected = {key: case[key] for key in ("status", "request", "answer") if key in case}
    assert run(answer_embeddings, case) == expected


@pytest.mark.parametrize("case", read_cases("rerank/cases.jsonl"))
def test_a_rerank_body_is_parsed_and_rendered(case):
    expected = {key: case[key] for key in ("status", "request", "answer") if key in case}
    assert run(answer_rerank, case) == expected
