"""openai: chats, calls, schemas, streams, responses, completions, embeddings, models."""

from __future__ import annotations

import os

from openai import OpenAI
from pydantic import BaseModel, ConfigDict

client = OpenAI(base_url=f"{os.environ['URL']}/v1", api_key=os.environ["KEY"])
ask = [{"role": "user", "content": "What is the capital of France?"}]
options = {"model": "smol", "temperature": 0, "max_tokens": 16}
parameters = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}}
tool = {"type": "function", "function": {"name": "weather", "parameters": parameters}}


class Verdict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    wet: bool


answer = client.chat.completions.create(messages=ask, **options)
assert answer.choices[0].message.content and answer.usage.total_tokens
chunks = list(client.chat.completions.create(messages=ask, stream=True, **options))
text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
assert text == answer.choices[0].message.content

called = client.chat.completions.create(
    messages=ask, tools=[tool], tool_choice="required", **options | {"max_tokens": 100}
)
(call, *_) = called.choices[0].message.tool_calls
assert call.function.name == "weather"
parsed = client.chat.completions.parse(messages=ask, response_format=Verdict, **options)
assert isinstance(parsed.choices[0].message.parsed, Verdict)
with_tools = client.chat.completions.create(
    messages=ask,
    tools=[tool],
    response_format={
        "type": "json_schema",
        "json_schema": {"name": "v", "schema": Verdict.model_json_schema()},
    },
    **options | {"max_tokens": 100},
)
message = with_tools.choices[0].message
assert message.tool_calls or Verdict.model_validate_json(message.content)

first = client.responses.create(model="smol", input="Say hi.", max_output_tokens=8)
second = client.responses.create(
    model="smol", input="Again.", previous_response_id=first.id, max_output_tokens=8
)
assert second.output_text
with client.responses.stream(model="smol", input="Say hi.", max_output_tokens=8) as events:
    kinds = [event.type for event in events]
assert kinds[0] == "response.created"
assert kinds[-1] in ("response.completed", "response.incomplete")

written = client.completions.create(model="smol", prompt="One, two,", max_tokens=4, logprobs=2)
assert written.choices[0].text
vectors = client.embeddings.create(model="embedder", input=["a", "b"])
assert len(vectors.data) == 2 and len(vectors.data[0].embedding) == 384
assert "smol" in [model.id for model in client.models.list()]
