"""Events between the shared Watch and one client."""

from __future__ import annotations

import asyncio

import pytest

from gateway.fleet.mailbox import Mailbox
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb


class Ends:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def make(ends: Ends | None = None, limit_bytes: int = 10_000) -> Mailbox:
    on_end = ends or Ends()
    return Mailbox(1, 1, 0.0, on_end=on_end, on_first_token=Ends(), limit_bytes=limit_bytes)


def delta(text: str, *ids: int, infos: int = 0) -> pb.SequenceFrame:
    sequence = pb.SequenceFrame(token_ids=ids)
    sequence.events.add(delta=pb.Delta(text=text, infos=[pb.TokenInfo(id=1)] * infos))
    return sequence


def finished() -> pb.SequenceFrame:
    sequence = pb.SequenceFrame(token_ids=[9])
    sequence.events.add(finished=pb.Finished())
    return sequence


async def test_events_come_out_in_order_and_ids_are_kept():
    box = make()
    box.put(delta("a", 1, 2), 1.0)
    assert [event.delta.text for event in await box.take()] == ["a"]
    box.put(finished(), 2.0)
    assert not box.drained
    assert (await box.take())[0].HasField("finished")
    assert box.drained
    assert box.token_ids == [1, 2, 9]
    assert (box.first_token_s, box.last_token_s) == (1.0, 2.0)


async def test_a_waiting_reader_is_woken():
    box = make()
    reader = asyncio.create_task(box.take())
    await asyncio.sleep(0)
    box.put(delta("a"), 0.0)
    assert len(await reader) == 1


async def test_unread_text_is_merged():
    box = make()
    for text in "abc":
        box.put(delta(text), 0.0)
    box.put(finished(), 0.0)
    assert [event.delta.text for event in await box.take()] == ["abc", ""]


async def test_deltas_with_token_infos_are_never_merged():
    box = make()
    for text, infos in (("a", 0), ("b", 1), ("c", 1), ("d", 0), ("e", 0)):
        box.put(delta(text, infos=infos), 0.0)
    assert [event.delta.text for event in await box.take()] == ["a", "b", "c", "de"]


async def test_ids_without_events_do_not_wake_the_reader():
    box = make()
    box.put(pb.SequenceFrame(token_ids=[5]), 0.0)
    assert box.token_ids == [5]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(box.take(), 0.01)


async def test_a_failure_follows_the_events_before_it():
    box = make()
    box.put(delta("a"), 0.0)
    sequence = delta("b")
    sequence.events.add(failed=pb.Failed(error={"code": "engine_failed", "message": "m"}))
    box.put(sequence, 0.0)
    assert [event.delta.text for event in await box.take()] == ["ab"]
    with pytest.raises(ServiceError) as caught:
        await box.take()
    assert caught.value.code == "engine_failed"
    assert not box.running


async def test_above_the_limit_the_request_fails_while_the_worker_runs_it():
    ends = Ends()
    box = make(ends, limit_bytes=100)
    for _ in range(50):
        box.put(delta("ten bytes."), 0.0)
    assert ends.count == 1
    assert box.running
    assert len((await box.take())[0].delta.text) < 120
    with pytest.raises(ServiceError) as caught:
        await box.take()
    assert caught.value.code == "cancelled"


async def test_the_end_is_reported_once_and_is_last():
    ends = Ends()
    box = make(ends)
    box.put(finished(), 0.0)
    box.put(delta("late"), 0.0)
    box.fail(ServiceError("timeout", "x"))
    assert ends.count == 1
    assert [event.WhichOneof("event") for event in await box.take()] == ["finished"]
    assert box.drained
