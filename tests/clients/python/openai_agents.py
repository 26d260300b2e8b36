"""openai-agents: a typed output beside a tool, over Responses and chats."""

from __future__ import annotations

import contextlib
import os

from agents import (
    Agent,
    MaxTurnsExceeded,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from pydantic import BaseModel

set_tracing_disabled(True)


class Verdict(BaseModel):
    wet: bool


@function_tool
def look_outside() -> str:
    """Return the weather."""
    return "rain"


client = AsyncOpenAI(base_url=f"{os.environ['URL']}/v1", api_key=os.environ["KEY"])
for kind in (OpenAIResponsesModel, OpenAIChatCompletionsModel):
    agent = Agent(
        name="meteorologist",
        instructions="Answer.",
        model=kind(model="smol", openai_client=client),
        tools=[look_outside],
        output_type=Verdict,
        model_settings=ModelSettings(temperature=0, max_tokens=200),
    )
    # A small model may go on calling; its calls are answered all the same.
    with contextlib.suppress(MaxTurnsExceeded):
        result = Runner.run_sync(agent, "Is rain wet?", max_turns=3)
        assert isinstance(result.final_output, Verdict)
    result = Runner.run_sync(agent.clone(tools=[]), "Is rain wet?")
    assert isinstance(result.final_output, Verdict)
