"""Compaction of histories, on request and before an answer."""

from __future__ import annotations

import asyncio

import pytest

from tests import spec
from tests.contract.harness import Harness
from tests.contract.response_client import PATH, ask, call, create, open_capsule, read, said
from tests.response_stream import ResponseReader
from tests.wait import until


def long_history(count=12):
    """Return turns of several words each; the last is the user's."""
    history = [{"role": "developer", "content": "stay brief"}]
    for index in range(count):
        words = " ".join(["word"] * 20)
        history.append({"role": "user", "content": f"question {index} {words}"})
        history.append({"role": "assistant", "content": f"answer {index} {words}"})
    return [*history, {"role": "user", "content": "the last question [tokens=6]"}]


async def test_compact_keeps_the_newest_turns_and_summarises_the_rest(harness: Harness):
    await harness.start()
    history = long_history()
    status, reply = await ask(
        harness, history, path=f"{PATH}/compact", keep_tokens=60, max_output_tokens=40
    )
    assert status == 200, reply
    assert spec.find_errors("openai", "CompactResource", reply) == []
    assert reply["object"] == "response.compaction"
    (request,) = harness.worker.submitted
    assert request.max_tokens == 40
    assert len(request.chat.messages) == 1 + 22 + 1
    first, *kept, compaction = reply["output"]
    assert (first["role"], first["content"][0]["text"]) == ("developer", "stay brief")
    texts = [item["content"][0]["text"] for item in kept]
    assert texts == [item["content"] for item in history[-3:]]
    capsule = open_capsule(compaction)
    assert capsule["summary"]
    assert [item["content"] for item in capsule["items"]] == texts
    assert reply["usage"]["output_tokens"] == 8
    # Both the whole output and the compaction alone can be continued.
    follow = {"role": "user", "content": "go on"}
    turns = []
    for beginning in (reply["output"], [first, compaction]):
        await create(harness, [*beginning, follow])
        turns.append(said(harness))
    assert turns[0] == turns[1]
    assert [role for role, _ in turns[0]] == [
        *("system", "user", "assistant", "user", "assistant", "user", "user")
    ]
    assert turns[0][2][1] == f"Conversation handoff:\n{capsule['summary']}"


async def test_a_compacted_history_is_compacted_again(harness: Harness):
    await harness.start()
    path = f"{PATH}/compact"
    _, once = await ask(harness, long_history(), path=path, keep_tokens=60)
    grown = [*once["output"], *long_history()[1:]]
    status, twice = await ask(harness, grown, path=path, keep_tokens=60)
    assert status == 200, twice
    kinds = [item["type"] for item in twice["output"]]
    assert kinds.count("compaction") == 1
    assert any("Conversation handoff" in text for _, text in said(harness))


async def test_calls_stay_with_their_outputs(harness: Harness):
    await harness.start()
    loop = []
    for index in range(8):
        loop += [
            {"type": "function_call", "call_id": f"c{index}", "name": "look", "arguments": "{}"},
            {
                "type": "function_call_output",
                "call_id": f"c{index}",
                "output": " ".join(["seen"] * 20),
            },
        ]
    history = [{"role": "user", "content": "look around [tokens=5]"}, *loop]
    _, reply = await ask(harness, history, path=f"{PATH}/compact", keep_tokens=50)
    user, *kept, _ = reply["output"]
    assert user["content"][0]["text"] == "look around [tokens=5]"
    assert [item["call_id"] for item in kept] == ["c6", "c6", "c7", "c7"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"stream": True}, "stream"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "c"}, "conversation"),
        ({"keep_tokens": 0}, "keep_tokens"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"max_output_tokens": 16385}, "max_output_tokens"),
        ({"temperature": -1}, "temperature"),
        ({"input": [{"type": "x"}]}, "input[0].type"),
        ({"input": None}, "input"),
    ],
)
async def test_compact_refuses_by_name(harness: Harness, fields, param):
    await harness.start()
    body = {"input": long_history()} | fields
    async with harness.session.post(f"{PATH}/compact", json=body) as reply:
        assert reply.status == 400
        assert (await reply.json())["error"]["param"] == param
    assert harness.worker.submitted == []


async def test_a_history_that_can_t_become_shorter_is_refused(harness: Harness):
    await harness.start()
    # A summary as long as what it replaces.
    wordy = {"role": "user", "content": "w [tokens=400]"}
    cases = [
        ([], {"keep_tokens": 10_000}, "nothing to compact"),
        ([wordy], {"keep_tokens": 30}, "would not make the history shorter"),
        ([{"role": "user", "content": "w " * 4200}], {"keep_tokens": 30}, "The history has 4"),
    ]
    for beginning, fields, sentence in cases:
        history = [*beginning, *long_history(4)]
        status, reply = await ask(
            harness, history, path=f"{PATH}/compact", max_output_tokens=400, **fields
        )
        assert status == 400, sentence
        assert reply["error"]["code"] == "context_length_exceeded"
        assert sentence in reply["error"]["message"]


EDIT = [{"type": "compaction", "compact_threshold": 200}]


@pytest.mark.parametrize("streams", [False, True])
async def test_a_history_over_the_threshold_is_compacted_before_the_answer(
    harness: Harness, streams
):
    await harness.start()
    fields = {"context_management": EDIT, "seed": 3}
    if streams:
        reader = await read(harness, long_history(), **fields)
        response = reader.response
        beginning = ["response.created", "response.in_progress"]
        compacting = ["mlx.compaction.started", "mlx.compaction.completed"]
        item = ["response.output_item.added", "response.output_item.done"]
        assert reader.kinds[:6] == beginning + compacting + item
        assert reader.compaction["input_tokens_before"] >= 200
        assert reader.compaction["input_tokens_after"] < 200
        assert response["usage"]["input_tokens"] == reader.compaction["input_tokens_after"]
    else:
        response = await create(harness, long_history(), **fields)
    assert [item["type"] for item in response["output"]] == ["compaction", "message"]
    summary = open_capsule(response["output"][0])["summary"]
    roles = [role for role, _ in said(harness)]
    assert roles[:3] == ["system", "user", "assistant"]
    assert said(harness)[2][1] == f"Conversation handoff:\n{summary}"
    # The chain continues the compacted history.
    await create(harness, "go on", previous_response_id=response["id"])
    texts = [text for _, text in said(harness)]
    assert not any("question 0" in text for text in texts)
    assert texts[2].endswith(summary)
    assert texts[-1] == "go on"


async def test_a_conversation_continues_from_its_compaction(harness: Harness):
    await harness.start()
    for index in range(6):
        await create(harness, f"question {index} " + "word " * 40, conversation="talk", seed=index)
    response = await create(harness, "now", conversation="talk", context_management=EDIT, seed=9)
    assert response["output"][0]["type"] == "compaction"
    await create(harness, "go on", conversation="talk")
    texts = [text for _, text in said(harness)]
    assert texts[1].startswith("Conversation handoff")
    assert "now" in texts
    assert texts[-1] == "go on"


async def test_under_the_threshold_nothing_is_compacted(harness: Harness):
    await harness.start()
    edit = [{"type": "compaction", "compact_threshold": 100_000}]
    reader = await read(harness, long_history(), context_management=edit)
    assert reader.compaction == {}
    assert len(harness.worker.submitted) == 1
    edit = [{"type": "compaction"}]
    assert len((await create(harness, "hi", context_management=edit))["output"]) == 1


async def test_a_compaction_that_fails_fails_the_response(harness: Harness):
    await harness.start()
    edit = [{"type": "compaction", "compact_threshold": 20}]
    status, reply = await ask(harness, "w " * 30, context_management=edit)
    assert (status, reply["error"]["code"]) == (400, "context_length_exceeded")
    reader = await read(harness, "w " * 30, context_management=edit)
    assert reader.kinds[2:] == ["mlx.compaction.started", "error", "response.failed"]
    assert reader.error["code"] == "context_length_exceeded"


async def test_a_summary_is_resumed_after_a_lost_worker(harness: Harness):
    await harness.start()
    history = [{"role": "user", "content": "first [die=4]"}, *long_history()]
    reading = asyncio.create_task(read(harness, history, context_management=EDIT, seed=3))
    await until(lambda: not harness.worker.listening)
    await harness.worker.start()
    response = (await reading).response
    assert [item["type"] for item in response["output"]] == ["compaction", "message"]
    assert [request.attempt for request in harness.worker.submitted] == [1, 2, 1]
    # Metrics count one request.
    assert harness.context.metrics.counted.requests == 1


async def test_a_response_is_cancelled_while_its_history_is_being_compacted(harness: Harness):
    harness.add_worker(step_s=0.02)
    await harness.start()
    history = [*long_history()[:-1], {"role": "user", "content": "[prefill=4000] last"}]
    body = {"input": history, "stream": True, "context_management": EDIT}
    async with harness.session.post(PATH, json=body) as reply:
        reader = ResponseReader()
        while "mlx.compaction.started" not in reader.kinds:
            reader.feed(await reply.content.readany())
        await until(lambda: harness.worker.active == 1)
        status, _ = await call(harness, "POST", f"{PATH}/{reader.response['id']}/cancel")
        assert status == 200
        reader.feed(await reply.read())
    assert reader.response["status"] == "cancelled"
    await harness.idle()
    assert len(harness.worker.submitted) == 1
