"""huggingface_hub: a chat, a stream, features."""

from __future__ import annotations

import os

from huggingface_hub import InferenceClient

client = InferenceClient(base_url=f"{os.environ['URL']}/v1", api_key=os.environ["KEY"])
ask = [{"role": "user", "content": "Say hi."}]
reply = client.chat_completion(ask, model="smol", max_tokens=12)
assert reply.choices[0].message.content
chunks = client.chat_completion(ask, model="smol", max_tokens=12, stream=True)
assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
