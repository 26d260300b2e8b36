"""anthropic: messages, streams, calls, token counts, models."""

from __future__ import annotations

import os

from anthropic import Anthropic

client = Anthropic(base_url=os.environ["URL"], api_key=os.environ["KEY"])
ask = [{"role": "user", "content": "What is the capital of France?"}]
schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}}
tools = [{"name": "weather", "input_schema": schema}]

options = {"model": "smol", "messages": ask, "max_tokens": 16, "extra_body": {"temperature": 0}}
message = client.messages.create(**options)
assert message.content[0].text
with client.messages.stream(**options) as stream:
    assert "".join(stream.text_stream) == message.content[0].text
called = client.messages.create(
    model="smol", messages=ask, max_tokens=100, tools=tools, tool_choice={"type": "any"}
)
assert called.content[0].name == "weather"
assert client.messages.count_tokens(model="smol", messages=ask).input_tokens > 5
models = {model.id: model for model in client.models.list()}
assert models["smol"].max_input_tokens > 1000
assert models["smol"].capabilities.structured_outputs.supported
assert client.models.retrieve("smol").id == "smol"
