"""Routes that count tokens or render a prompt without generation."""

from __future__ import annotations

import pytest

from tests.contract.harness import Harness, body

COUNT = "/v1/chat/completions/input_tokens"


@pytest.mark.parametrize("path", [COUNT, "/chat/completions/input_tokens"])
async def test_input_tokens_counts_the_rendered_conversation_and_runs_nothing(
    harness: Harness, path
):
    await harness.start()
    assert await harness.ask(path, body("three words here")) == (200, {"input_tokens": 3})
    assert not harness.worker.submitted


async def test_apply_template_returns_the_prompt(harness: Harness):
    await harness.start()
    assert await harness.ask("/apply-template", body("hello")) == (200, {"prompt": "hello"})


@pytest.mark.parametrize("path", [COUNT, "/apply-template"])
async def test_counting_refuses_what_a_completion_refuses(harness: Harness, path):
    await harness.start()
    status, reply = await harness.ask(path, body("hi", top_p=3))
    assert (status, reply["error"]["param"]) == (400, "top_p")
    status, reply = await harness.ask(path, body("[refuse=invalid_request]"))
    assert (status, reply["error"]["type"]) == (400, "invalid_request_error")
