"""langchain: OpenAI's and Anthropic's chat models, calls, schemas, embeddings."""

from __future__ import annotations

import os

from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel

URL, KEY = os.environ["URL"], os.environ["KEY"]


class Verdict(BaseModel):
    """Whether something is wet."""

    wet: bool


@tool
def lamp(on: bool) -> str:
    """Switch the lamp."""
    return f"on: {on}"


openai = ChatOpenAI(base_url=f"{URL}/v1", api_key=KEY, model="smol", temperature=0, max_tokens=60)
anthropic = ChatAnthropic(base_url=URL, api_key=KEY, model="smol", temperature=0, max_tokens=60)
for model in (openai, anthropic):
    assert model.invoke("Say hi.").content
    assert "".join(str(chunk.text) for chunk in model.stream("Say hi."))
    assert model.bind_tools([lamp], tool_choice="any").invoke("Light!").tool_calls
assert isinstance(openai.with_structured_output(Verdict).invoke("Is rain wet?"), Verdict)
embeddings = OpenAIEmbeddings(
    base_url=f"{URL}/v1", api_key=KEY, model="embedder", check_embedding_ctx_length=False
)
assert len(embeddings.embed_query("a")) == 384
