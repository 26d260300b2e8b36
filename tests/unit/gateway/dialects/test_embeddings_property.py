"""Every body becomes a valid request or an error."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects import embeddings, rerank
from shared.errors import ServiceError
from shared.pb import worker_pb2

CARD = worker_pb2.ModelCard(
    name="m",
    vocab_tokens=30_000,
    encoder=worker_pb2.EncoderCard(dimensions=384, takes_instruction=True),
)
# Includes lone surrogates.
TEXTS = st.one_of(
    st.text(max_size=8),
    st.text(st.characters(categories=("Cs", "Cc", "So")), max_size=4),
    st.just("x" * 100_000),
    st.just(""),
)
IDS = st.one_of(st.integers(0, 29_999), st.integers(-2, 2**70))
ITEMS = st.one_of(TEXTS, IDS, st.lists(IDS, max_size=3), st.fixed_dictionaries({"text": TEXTS}))
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


def refusal(make, body):
    """Return the error of a body; None if it is accepted."""
    try:
        make(json.dumps(body).encode())
    except ServiceError as failure:
        return failure
    return None


def check(make, body):
    """Check that a body is accepted or refused with a message."""
    failure = refusal(make, body)
    assert failure is None or (failure.code == "invalid_request" and failure.message)


@given(st.one_of(TEXTS, st.lists(ITEMS, max_size=4), ANYTHING), st.data())
def test_any_input_is_accepted_or_refused(given_input, data):
    fields = data.draw(
        st.dictionaries(
            st.sampled_from(["dimensions", "embd_normalize", "encoding_format", "instruction"]),
            ANYTHING,
            max_size=2,
        )
    )

    def make(body):
        request = embeddings.build(embeddings.parse(body, is_native=True), CARD)
        assert request.items
        for item in request.items:
            assert item.text or (item.tokens.ids and max(item.tokens.ids) < CARD.vocab_tokens)

    check(make, {"input": given_input, **fields})


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",)), min_size=1), min_size=1))
def test_any_list_of_texts_is_accepted(texts):
    def make(body):
        embeddings.build(embeddings.parse(body, is_native=False), CARD)

    assert refusal(make, {"input": texts}) is None


@given(ANYTHING | st.lists(TEXTS, max_size=3), ANYTHING | TEXTS, ANYTHING)
def test_any_rerank_body_is_accepted_or_refused(documents, query, top_n):
    def make(body):
        request = rerank.build(rerank.parse(body), CARD)
        assert request.query.strip()
        assert all(document.strip() for document in request.documents)

    check(make, {"documents": documents, "query": query, "top_n": top_n})
