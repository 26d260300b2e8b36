"""cohere, its second client: rerank."""

from __future__ import annotations

import os

import cohere

client = cohere.ClientV2(api_key=os.environ["KEY"], base_url=os.environ["URL"])
reply = client.rerank(model="ranker", query="cats", documents=["a cat", "a car"])
assert sorted(result.index for result in reply.results) == [0, 1]
