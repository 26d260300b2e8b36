"""Admission: forwarding, waiting and refusing, with an injected clock."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from gateway.fleet.admission import Admission, Ticket
from gateway.fleet.mailbox import Mailbox
from gateway.fleet.replica import Replica
from shared.errors import ServiceError
from shared.pb import common_pb2 as common
from shared.pb import text_pb2 as pb
from shared.pb import worker_pb2

HIGH, NORMAL, LOW = common.PRIORITY_HIGH, common.PRIORITY_NORMAL, common.PRIORITY_LOW


class Harness:
    """One queue in front of some replicas."""

    def __init__(self, *slots: int, limit: int = 32) -> None:
        self.now_s = 0.0
        self.admission = Admission(limit, 0.05, lambda: self.now_s)
        self.replicas = [
            Replica(f"unix:/nowhere/{index}", "g", self.admission.pump, lambda: self.now_s)
            for index in range(len(slots))
        ]
        self.admission.replicas = self.replicas
        self._arrival = itertools.count(1)
        self._slots = slots
        for index in range(len(slots)):
            self.beat(index)

    def beat(self, index: int = 0, **fields) -> None:
        self.replicas[index].on_heartbeat(
            worker_pb2.Heartbeat(instance="i", slots_total=self._slots[index], **fields)
        )

    def ticket(self, priority=NORMAL, *, resumed=False, isolate=False) -> Ticket:
        request = pb.GenerateRequest(priority=priority, arrival_ns=next(self._arrival))
        return Ticket(request, resumed=resumed, isolate=isolate)

    def enqueue(self, priority=NORMAL, **flags) -> Ticket:
        ticket = self.ticket(priority, **flags)
        self.admission.enqueue(ticket)
        return ticket

    def fill(self, count: int, priority=NORMAL) -> list[Ticket]:
        return [self.enqueue(priority) for _ in range(count)]

    def start(self, ticket: Ticket) -> Mailbox:
        """Start the prefill of a ticket."""
        ticket.box = Mailbox(1, 1, 0.0, on_end=lambda: None, on_first_token=lambda: None)
        sequence = pb.SequenceFrame()
        sequence.events.add(started=pb.Started())
        ticket.box.put(sequence, 0.0)
        return ticket.box


async def test_a_worker_gets_its_slots_and_two_more_requests():
    harness = Harness(4)
    tickets = harness.fill(10)
    assert [ticket.assigned.done() for ticket in tickets] == [True] * 6 + [False] * 4
    assert harness.admission.waiting == 4
    assert harness.admission.depth == 6


async def test_a_freed_slot_goes_to_the_oldest_of_the_highest_class():
    harness = Harness(1)
    first, *_ = harness.fill(3)
    low, normal, late, high = (harness.enqueue(p) for p in (LOW, NORMAL, NORMAL, HIGH))
    order = []
    for _ in range(4):
        harness.admission.release(first)
        done = [t for t in (low, normal, late, high) if t.assigned.done() and t not in order]
        order += done
        first = done[0]
    assert order == [high, normal, late, low]


async def test_a_request_above_a_running_class_is_forwarded():
    harness = Harness(2)
    harness.fill(4, LOW)
    assert not harness.enqueue(LOW).assigned.done()
    assert harness.enqueue(NORMAL).assigned.done()
    assert harness.enqueue(HIGH).assigned.done()


async def test_a_request_above_only_waiting_classes_waits():
    harness = Harness(1)
    harness.fill(3, HIGH)
    harness.enqueue(LOW)
    assert not harness.enqueue(HIGH).assigned.done()


async def test_waiting_promotes_low_priority():
    harness = Harness(1)
    running, *_ = harness.fill(3, HIGH)
    low = harness.enqueue(LOW)
    harness.now_s = 61.0
    harness.beat()
    harness.enqueue(HIGH)
    harness.admission.release(running)
    assert low.assigned.done()


async def test_steady_high_priority_does_not_starve_low():
    harness = Harness(1)
    harness.fill(3)
    low = harness.enqueue(LOW)
    for second in range(0, 70, 5):
        harness.now_s = float(second)
        harness.beat()
        harness.enqueue(HIGH)
    assert low.assigned.done()


async def test_a_full_queue_refuses_without_waiting():
    harness = Harness(2, limit=3)
    harness.fill(5)
    assert harness.admission.depth == 3
    with pytest.raises(ServiceError) as caught:
        harness.enqueue()
    assert (caught.value.code, caught.value.retry_after_s) == ("server_busy", 1.0)
    assert harness.admission.depth == 3


async def test_without_a_queue_only_free_slots_are_used():
    harness = Harness(2, limit=0)
    harness.fill(2)
    with pytest.raises(ServiceError):
        harness.enqueue()


async def test_a_resumed_request_ignores_the_limit_and_the_queue():
    harness = Harness(1, limit=3)
    harness.fill(4)
    assert harness.enqueue(LOW, resumed=True).assigned.done()


async def test_cancelling_a_waiting_request_removes_it():
    harness = Harness(1)
    harness.fill(3)
    ticket = harness.enqueue()
    task = asyncio.create_task(harness.admission.wait(ticket))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert harness.admission.waiting == 0


async def test_the_least_loaded_replica_is_chosen():
    harness = Harness(2, 4)
    tickets = harness.fill(6)
    assert [len(replica.forwarded) for replica in harness.replicas] == [2, 4]
    assert all(ticket.assigned.done() for ticket in tickets)


async def test_a_silent_or_draining_replica_gets_no_requests():
    harness = Harness(4, 4)
    harness.beat(0, draining=True)
    tickets = harness.fill(3)
    assert all(ticket.replica is harness.replicas[1] for ticket in tickets)
    harness.now_s = 11.0
    assert harness.replicas[1].state == "hung"
    ticket = harness.enqueue()
    assert not ticket.assigned.done()
    harness.beat(1)
    assert ticket.assigned.done()


async def test_requests_wait_for_a_replica_in_a_long_step():
    harness = Harness(4)
    harness.beat(step_age_ms=9_000, step_timeout_ms=120_000)
    assert harness.enqueue().assigned.done()
    harness.beat(step_age_ms=11_000, step_timeout_ms=120_000)
    assert harness.replicas[0].state == "busy"
    ticket = harness.enqueue()
    await asyncio.sleep(0.1)
    assert not ticket.assigned.done()
    harness.beat(step_age_ms=5)
    assert ticket.assigned.done()


async def test_requests_wait_while_a_lost_replica_loads():
    harness = Harness(1)
    harness.replicas[0].on_lost(ServiceError("worker_unavailable", "gone"))
    ticket = harness.enqueue(resumed=True)
    harness.replicas[0].on_card(worker_pb2.ModelCard())
    harness.replicas[0].on_lost(ServiceError("model_loading", "loading"))
    await asyncio.sleep(0.1)
    assert not ticket.assigned.done()
    harness.replicas[0].on_lost(ServiceError("worker_unavailable", "gone again"))
    with pytest.raises(ServiceError, match="did not come back"):
        await harness.admission.wait(ticket)


async def test_waiting_for_a_lost_worker_times_out():
    harness = Harness(1)
    harness.replicas[0].on_lost(ServiceError("worker_unavailable", "gone"))
    ticket = harness.enqueue(resumed=True)
    with pytest.raises(ServiceError) as caught:
        await harness.admission.wait(ticket)
    assert caught.value.code == "worker_unavailable"
    assert harness.admission.waiting == 0


async def test_waiting_requests_run_when_the_worker_returns():
    harness = Harness(1)
    harness.replicas[0].on_lost(ServiceError("worker_unavailable", "gone"))
    ticket = harness.enqueue(resumed=True)
    harness.beat()
    await asyncio.sleep(0.1)
    assert ticket.assigned.result() is harness.replicas[0]


async def test_isolated_requests_run_one_at_a_time_until_progress():
    harness = Harness(4)
    first, second = (harness.enqueue(resumed=True, isolate=True) for _ in range(2))
    assert first.assigned.done()
    assert not second.assigned.done()
    assert harness.enqueue(resumed=True).assigned.done()
    box = harness.start(first)
    box.put(pb.SequenceFrame(token_ids=[5]), 0.0)
    harness.admission.pump()
    assert second.assigned.done()


async def test_load_between_heartbeats_counts_own_requests():
    harness = Harness(4)
    tickets = harness.fill(5)
    replica = harness.replicas[0]
    assert (replica.active, replica.queued) == (0, 5)
    boxes = [harness.start(ticket) for ticket in tickets[:4]]
    assert (replica.active, replica.queued) == (4, 1)
    harness.beat(slots_active=4, queue_depth=1)
    assert (replica.active, replica.queued) == (4, 1)
    boxes[0].fail(ServiceError("cancelled", "x"))
    harness.admission.release(tickets[0])
    assert (replica.active, replica.queued) == (3, 1)


async def test_counters_do_not_decrease_on_a_restart():
    harness = Harness(4)
    replica = harness.replicas[0]
    counters = worker_pb2.Counters(decode_tokens=10, failed=1)
    replica.on_heartbeat(worker_pb2.Heartbeat(instance="a", counters=counters))
    counters.decode_tokens = 12
    replica.on_heartbeat(worker_pb2.Heartbeat(instance="a", counters=counters))
    replica.on_heartbeat(worker_pb2.Heartbeat(instance="b", counters=worker_pb2.Counters()))
    assert replica.counters.values()["decode_tokens"] == 12
    counters.decode_tokens = 3
    replica.on_heartbeat(worker_pb2.Heartbeat(instance="b", counters=counters))
    assert replica.counters.values()["decode_tokens"] == 15
    assert replica.counters.values()["failed"] == 2
