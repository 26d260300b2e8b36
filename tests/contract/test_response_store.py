"""Stored responses, chains and conversations through the whole gateway, on both stores."""

from __future__ import annotations

import pytest

from gateway.state.redis_store import RedisStore
from gateway.state.store import StoreLimits
from tests.contract.harness import Harness
from tests.contract.response_client import LOOK, PATH, ask, call, create, read, said


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.redis)])
def store(request):
    """Return the address of an empty store."""
    if request.param == "memory":
        return "memory"
    server = request.getfixturevalue("redis_server")
    server.stop()
    server.start()
    return server.url


async def test_a_stored_response_is_shown_and_deleted(harness: Harness, store):
    await harness.start(store=store)
    made = await create(harness, metadata={"a": "b"})
    url = f"{PATH}/{made['id']}"
    assert await call(harness, "GET", url) == (200, made)
    deleted = {"id": made["id"], "object": "response.deleted", "deleted": True}
    assert await call(harness, "DELETE", url) == (200, deleted)
    assert await call(harness, "DELETE", url) == (200, deleted | {"deleted": False})
    for method, where in (("GET", url), ("POST", f"{url}/cancel")):
        status, reply = await call(harness, method, where)
        assert (status, reply["error"]["type"]) == (404, "not_found")
        assert reply["error"]["message"] == f"response '{made['id']}' not found"


async def test_a_streamed_response_is_stored_before_its_end_is_sent(harness: Harness, store):
    await harness.start(store=store)
    reader = await read(harness, "[think=2] [tool=3] hi")
    assert await call(harness, "GET", f"{PATH}/{reader.response['id']}") == (200, reader.response)


async def test_a_cancelled_response_stays_cancelled(harness: Harness, store):
    await harness.start(store=store)
    made = await create(harness)
    url = f"{PATH}/{made['id']}"
    status, reply = await call(harness, "POST", f"{url}/cancel")
    assert (status, reply) == (200, made | {"status": "cancelled"})
    assert await call(harness, "GET", url) == (200, reply)
    # It can still be continued.
    await create(harness, "more", previous_response_id=made["id"])


async def test_a_chain_keeps_everything_but_instructions(harness: Harness, store):
    await harness.start(store=store)
    first = await create(harness, "one", seed=1, instructions="be brief")
    second = await create(harness, "two", seed=2, previous_response_id=first["id"])
    assert second["previous_response_id"] == first["id"]
    # A chain does not need its earlier responses.
    await call(harness, "DELETE", f"{PATH}/{first['id']}")
    await create(harness, "three", seed=3, previous_response_id=second["id"])
    assert said(harness) == [
        ("user", "one"),
        ("assistant", first["output_text"]),
        ("user", "two"),
        ("assistant", second["output_text"]),
        ("user", "three"),
    ]
    status, reply = await ask(harness, previous_response_id=first["id"])
    assert (status, reply["error"]["param"]) == (400, "previous_response_id")
    expected = f"previous_response_id '{first['id']}' was not found or has expired"
    assert reply["error"]["message"] == expected


async def test_a_tool_loop_over_a_chain(harness: Harness, store):
    await harness.start(store=store)
    first = await create(harness, "[tool=3] look", tools=[LOOK])
    call_id = first["output"][-1]["call_id"]
    result = {"type": "function_call_output", "call_id": call_id, "output": "[tool=0] a tree"}
    second = await create(harness, [result], previous_response_id=first["id"], tools=[LOOK])
    assert [item["type"] for item in second["output"]] == ["message"]
    assert [role for role, _ in said(harness)] == ["user", "assistant", "tool"]


async def test_items_of_stored_responses_are_referred_to_by_id(harness: Harness, store):
    await harness.start(store=store)
    asked = {"role": "user", "content": "[think=1] [tool=3] look"}
    first = await create(harness, [asked], tools=[LOOK])
    thought, *_, made = first["output"]
    result = {"type": "function_call_output", "call_id": made["call_id"], "output": "a tree"}
    names = [{"type": "item_reference", "id": item["id"]} for item in first["output"]]
    second = await create(harness, [asked, *names, result], tools=[LOOK], seed=2)
    referred = harness.worker.submitted[-1].chat
    assert referred.messages[1].reasoning == thought["content"][0]["text"]
    await create(harness, [asked, *first["output"], result], tools=[LOOK], seed=3)
    assert harness.worker.submitted[-1].chat.messages == referred.messages
    # References to items of several responses; a missing one is named by its path.
    more = [*names, result, {"type": "item_reference", "id": second["output"][0]["id"]}]
    status, counted = await ask(harness, more, path=f"{PATH}/input_tokens")
    assert (status, counted["object"]) == (200, "response.input_tokens")
    await call(harness, "DELETE", f"{PATH}/{first['id']}")
    status, reply = await ask(harness, [asked, *names])
    assert (status, reply["error"]["param"]) == (400, "input[1].id")


@pytest.mark.parametrize("name", ["talk", {"id": "разговор 🗣"}])
async def test_a_conversation_grows_turn_by_turn(harness: Harness, store, name):
    await harness.start(store=store)
    first = await create(harness, "one", conversation=name, seed=1)
    second = (await read(harness, "two", conversation=name, seed=2)).response
    identity = name if isinstance(name, str) else name["id"]
    assert first["conversation"] == second["conversation"] == {"id": identity}
    await create(harness, "silent", conversation=name, store=False)
    await create(harness, "three", conversation=name)
    assert said(harness) == [
        ("user", "one"),
        ("assistant", first["output_text"]),
        ("user", "two"),
        ("assistant", second["output_text"]),
        ("user", "three"),
    ]


async def test_failed_responses_and_those_with_store_false_are_not_stored(harness: Harness, store):
    await harness.start(store=store)
    made = await create(harness, store=False, conversation="talk")
    assert (await call(harness, "GET", f"{PATH}/{made['id']}"))[0] == 404
    await create(harness, "next", conversation="talk")
    assert said(harness) == [("user", "next")]
    reader = await read(harness, "[tokens=9] [fail=internal] hi", conversation="talk")
    assert reader.response["status"] == "failed"
    assert (await call(harness, "GET", f"{PATH}/{reader.response['id']}"))[0] == 404


async def test_storing_can_be_switched_off(harness: Harness):
    await harness.start(responses_store_max_entries=0, conversation_store_max_bytes=0)
    made = await create(harness)
    url = f"{PATH}/{made['id']}"
    for method, where in (("GET", url), ("DELETE", url), ("POST", f"{url}/cancel")):
        status, reply = await call(harness, method, where)
        assert (status, reply["error"]["type"]) == (400, "invalid_request_error")
    known = [{"type": "item_reference", "id": made["output"][0]["id"]}]
    for fields in (
        {"previous_response_id": made["id"]},
        {"conversation": "talk"},
        {"given": known},
    ):
        assert (await ask(harness, **fields))[0] == 400


async def test_a_response_larger_than_the_store_is_still_sent(harness: Harness, caplog):
    await harness.start(responses_store_max_bytes=500)
    made = await create(harness, "[tokens=2] [big] hi")
    assert f"{made['id']} is not stored" in caplog.text
    assert (await call(harness, "GET", f"{PATH}/{made['id']}"))[0] == 404


@pytest.mark.redis
async def test_without_redis_stored_state_is_503_and_generation_goes_on(
    harness: Harness, redis_server, caplog
):
    await harness.start(store=redis_server.url)
    made = await create(harness)
    url = f"{PATH}/{made['id']}"
    redis_server.stop()
    try:
        for method, where in (("GET", url), ("DELETE", url), ("POST", f"{url}/cancel")):
            status, reply = await call(harness, method, where)
            assert (status, reply["error"]["type"]) == (503, "server_error")
            assert "store" in reply["error"]["message"]
        known = [{"type": "item_reference", "id": made["output"][0]["id"]}]
        for fields in (
            {"previous_response_id": made["id"]},
            {"conversation": "talk"},
            {"given": known},
        ):
            for streams in (False, True):
                assert (await ask(harness, stream=streams, **fields))[0] == 503
        fresh = await create(harness)
        assert f"{fresh['id']} is not stored: store_unavailable" in caplog.text
        assert (await read(harness)).response["status"] == "completed"
    finally:
        redis_server.start()
    assert (await call(harness, "GET", f"{PATH}/{fresh['id']}"))[0] == 404
    again = await create(harness)
    assert (await call(harness, "GET", f"{PATH}/{again['id']}"))[0] == 200


@pytest.mark.redis
async def test_foreign_data_in_the_store_is_not_a_response(harness: Harness, redis_server):
    await harness.start(store=redis_server.url)
    other = RedisStore("responses", redis_server.url, StoreLimits(10, 10_000, 60))
    await other.put("resp_odd", b"\xff not json")
    assert (await call(harness, "GET", f"{PATH}/resp_odd"))[0] == 503
    await other.close()
