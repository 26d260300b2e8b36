"""pydantic-ai: an agent with a typed output, over chats and Responses.

Its model for Messages fails with the pinned version of anthropic before it sends anything.
"""

from __future__ import annotations

import os

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider


class Verdict(BaseModel):
    wet: bool


provider = OpenAIProvider(base_url=f"{os.environ['URL']}/v1", api_key=os.environ["KEY"])
models = [
    OpenAIChatModel("smol", provider=provider),
    OpenAIResponsesModel("smol", provider=provider),
]
settings = {"temperature": 0, "max_tokens": 100}
for model in models:
    plain = Agent(model, model_settings=settings).run_sync("Say hi.")
    assert plain.output
    # The output is a forced call.
    forced = Agent(model, output_type=Verdict, model_settings=settings).run_sync("Is rain wet?")
    assert isinstance(forced.output, Verdict)
native = Agent(models[0], output_type=NativeOutput(Verdict), model_settings=settings)
assert isinstance(native.run_sync("Is rain wet?").output, Verdict)
