"""Routes that count or show what a prompt becomes, without running it."""

from __future__ import annotations

import pytest

from tests.contract.harness import House, body

COUNT = "/v1/chat/completions/input_tokens"


@pytest.mark.parametrize("path", [COUNT, "/chat/completions/input_tokens"])
async def test_input_tokens_counts_the_rendered_conversation_and_runs_nothing(house: House, path):
    await house.start()
    assert await house.ask(path, body("three words here")) == (200, {"input_tokens": 3})
    assert not house.worker.submitted


async def test_apply_template_answers_the_prompt(house: House):
    await house.start()
    assert await house.ask("/apply-template", body("hello")) == (200, {"prompt": "hello"})


@pytest.mark.parametrize("path", [COUNT, "/apply-template"])
async def test_counting_refuses_what_a_completion_refuses(house: House, path):
    await house.start()
    status, reply = await house.ask(path, body("hi", top_p=3))
    assert (status, reply["error"]["param"]) == (400, "top_p")
    status, reply = await house.ask(path, body("[refuse=invalid_request]"))
    assert (status, reply["error"]["type"]) == (400, "invalid_request_error")
