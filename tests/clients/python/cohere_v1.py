"""cohere, its first client: rerank."""

from __future__ import annotations

import os

import cohere

client = cohere.Client(api_key=os.environ["KEY"], base_url=os.environ["URL"])
reply = client.rerank(model="ranker", query="cats", documents=["a cat", "a car"], top_n=1)
assert len(reply.results) == 1 and 0 <= reply.results[0].relevance_score <= 1
echoed = client.rerank(
    model="ranker", query="cats", documents=["a cat", "a car"], return_documents=True
)
assert {result.document.text for result in echoed.results} == {"a cat", "a car"}
