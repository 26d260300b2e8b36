"""litellm: chats over OpenAI's and Anthropic's APIs, text completions, embeddings, rerank."""

from __future__ import annotations

import os

import litellm

URL, KEY = os.environ["URL"], os.environ["KEY"]
ask = [{"role": "user", "content": "Say hi."}]
for model, base in (("openai/smol", f"{URL}/v1"), ("anthropic/smol", URL)):
    options = {"api_base": base, "api_key": KEY, "max_tokens": 12, "messages": ask}
    reply = litellm.completion(model=model, **options)
    assert reply.choices[0].message.content
    parts = [c.choices[0].delta.content for c in litellm.completion(model, stream=True, **options)]
    assert "".join(filter(None, parts))
written = litellm.text_completion(
    model="text-completion-openai/smol", prompt="One, two,", api_base=f"{URL}/v1", api_key=KEY
)
assert written.choices[0].text
vectors = litellm.embedding("openai/embedder", input=["a"], api_base=f"{URL}/v1", api_key=KEY)
assert len(vectors.data[0]["embedding"]) == 384
ranked = litellm.rerank(
    "cohere/ranker", query="cats", documents=["a cat", "a car"], api_base=URL, api_key=KEY
)
assert len(ranked.results) == 2
