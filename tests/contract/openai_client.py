"""OpenAI's own client of a gateway under test."""

from __future__ import annotations

import openai

from tests.contract.harness import Harness


def connect(harness: Harness) -> openai.AsyncOpenAI:
    """Return a client that reads no certificates, which takes longer than most tests."""
    http = openai.DefaultAsyncHttpxClient(verify=False)
    return openai.AsyncOpenAI(base_url=f"{harness.url}/v1", api_key="none", http_client=http)
