"""Frames for gateways: merged, bounded, each gateway apart from the others."""

from __future__ import annotations

import asyncio

import pytest

from shared.pb import text_pb2 as pb
from workers.text.engine.outbox import MAX_WAITING_BYTES, Outbox


@pytest.fixture
def dropped():
    """Ids of the gateways whose requests were cancelled."""
    return []


@pytest.fixture
def outbox(dropped):
    return Outbox(dropped.append)


def frame(key, text="x", attempt=1):
    event = pb.Event(delta=pb.Delta(text=text))
    return pb.SequenceFrame(key=key, attempt=attempt, token_ids=[key], events=[event])


async def assert_empty(mail):
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(mail.take(), 0.01)


async def test_a_step_reaches_each_gateway_with_its_own_requests(outbox, dropped):
    one, two = outbox.open("one"), outbox.open("two")
    outbox.deliver(4, {"one": [frame(1), frame(2)], "two": [frame(1, "y")], "gone": [frame(9)]})
    first, second = await one.take(), await two.take()
    assert [f.key for f in first.sequences] == [1, 2]
    assert [f.events[0].delta.text for f in second.sequences] == ["y"]
    assert (first.step, second.step) == (4, 4)
    assert dropped == []


async def test_unread_steps_are_merged_into_one_frame_in_order(outbox):
    mail = outbox.open("one")
    outbox.deliver(1, {"one": [frame(1, "a")]})
    outbox.deliver(2, {"one": [frame(1, "b", attempt=2), frame(2, "c")]})
    merged = await mail.take()
    assert merged.step == 2
    found = [(f.key, f.attempt, f.token_ids[0], f.events[0].delta.text) for f in merged.sequences]
    assert found == [(1, 1, 1, "a"), (1, 2, 1, "b"), (2, 1, 2, "c")]
    await assert_empty(mail)


async def test_a_reader_waits_for_frames_of_its_own_gateway(outbox):
    mail = outbox.open("one")
    outbox.deliver(2, {"two": [frame(1)]})
    await assert_empty(mail)
    reading = asyncio.ensure_future(mail.take())
    await asyncio.sleep(0)
    assert not reading.done()
    outbox.deliver(3, {"one": [frame(1)]})
    assert [f.key for f in (await reading).sequences] == [1]


async def test_a_new_stream_supersedes_the_old_one_and_drops_its_requests(outbox, dropped):
    old = outbox.open("one")
    outbox.deliver(1, {"one": [frame(1, "old")]})
    new = outbox.open("one")
    assert (old.closed, new.closed) == ("superseded", "")
    assert dropped == ["one"]
    outbox.deliver(2, {"one": [frame(2, "new")]})
    assert not (await old.take()).sequences
    assert [f.key for f in (await new.take()).sequences] == [2]
    # The old stream's handler ends later: the new one's requests are not dropped with it.
    outbox.close(old, "ended")
    assert dropped == ["one"]
    assert outbox.watched("one")
    assert new.closed == ""


async def test_a_gateway_that_does_not_read_loses_its_requests_and_others_do_not(outbox, dropped):
    silent, other = outbox.open("silent"), outbox.open("other")
    megabyte = "x" * (2**20 - 100)
    for step in range(MAX_WAITING_BYTES // 2**20 + 1):
        assert outbox.watched("silent")
        outbox.deliver(step, {"silent": [frame(1, megabyte)], "other": [frame(2, megabyte)]})
        assert len((await other.take()).sequences) == 1
    assert silent.closed == "overflow"
    assert dropped == ["silent"]
    assert not outbox.watched("silent")
    assert outbox.watched("other")
    assert other.closed == ""
    # Its unread frames are freed.
    assert await silent.take() == pb.StepFrame()
    outbox.deliver(99, {"silent": [frame(1)]})
    await assert_empty(silent)
    outbox.close(silent, "ended")
    assert silent.closed == "overflow"
    assert dropped == ["silent"]


async def test_a_gateway_that_reads_may_get_any_amount(outbox, dropped):
    mail = outbox.open("one")
    for step in range(4):
        outbox.deliver(step, {"one": [frame(1, "x" * (MAX_WAITING_BYTES // 3))]})
        await mail.take()
    assert mail.closed == ""
    assert dropped == []


async def test_a_stream_that_ends_drops_its_requests_and_wakes_its_reader(outbox, dropped):
    mail = outbox.open("one")
    reading = asyncio.ensure_future(mail.take())
    await asyncio.sleep(0)
    outbox.close(mail, "ended")
    await asyncio.wait_for(reading, 1)
    assert mail.closed == "ended"
    assert dropped == ["one"]
    assert not outbox.watched("one")
