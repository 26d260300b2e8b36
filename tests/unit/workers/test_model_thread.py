"""A lane runs calls in the order of class and arrival, bounded, and leaves nobody waiting."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from shared.errors import ServiceError
from shared.pb import common_pb2 as common
from shared.pb import worker_pb2
from tests.wait import until
from workers.job import Job
from workers.model_thread import ModelThread

LOW, NORMAL, HIGH = common.PRIORITY_LOW, common.PRIORITY_NORMAL, common.PRIORITY_HIGH


class Errand(Job):
    """A job that is done after a number of steps, unless it is a fault."""

    def __init__(self, name, steps=1, priority=NORMAL, arrival=0, timeout_s=None):
        super().__init__(priority, arrival, timeout_s)
        self.name = name
        self.steps = steps


class Runner:
    """Does one step of the first job; waits for a permit before each step."""

    def __init__(self):
        self.card = worker_pb2.ModelCard(name="runner", max_batch_size=1)
        self.permits = threading.Semaphore(0)
        self.served = []
        self.seen = []

    def step(self, jobs):
        self.seen.append([job.name for job in jobs])
        assert self.permits.acquire(timeout=10)
        job = jobs[0]
        job.serve()
        self.served.append(job.name)
        if job.name == "fault":
            raise RuntimeError("a fault")
        job.steps -= 1
        if not job.steps:
            job.finish(f"{job.name} is done")


class Ear:
    """Hears from a lane."""

    def __init__(self):
        self.loop = asyncio.get_running_loop()
        self.is_ready = asyncio.Event()
        self.is_over = asyncio.Event()
        self.failure = None

    def ready(self):
        self.loop.call_soon_threadsafe(self.is_ready.set)

    def worked(self):
        pass

    def ended(self, failure):
        self.failure = failure
        self.loop.call_soon_threadsafe(self.is_over.set)


@pytest.fixture
async def lane():
    """A lane for four calls with a Runner, whose steps need permits."""
    made = ModelThread(Runner, 4)
    made.listener = Ear()
    made.thread.start()
    await made.listener.is_ready.wait()
    yield made
    made.model.permits.release(1000)
    made.stop()
    await made.listener.is_over.wait()


async def begin(lane, *jobs):
    """Put jobs in, and wait until the lane has looked at them all or is busy with the first."""
    tasks = [asyncio.create_task(lane.run(job)) for job in jobs]
    await until(lambda: lane.model.seen)
    return tasks


async def test_a_call_is_answered(lane):
    lane.model.permits.release(3)
    assert await lane.run(Errand("a", steps=3)) == "a is done"
    assert lane.model.served == ["a"] * 3
    assert lane.counters.sequences_completed == 1


async def test_class_goes_before_arrival(lane):
    (first,) = await begin(lane, Errand("running", arrival=0))
    late = [
        Errand("low", priority=LOW, arrival=1),
        Errand("second", arrival=3),
        Errand("first", arrival=2),
        Errand("high", priority=HIGH, arrival=9),
    ]
    tasks = [asyncio.create_task(lane.run(job)) for job in late]
    await asyncio.sleep(0)
    lane.model.permits.release(100)
    await asyncio.gather(first, *tasks)
    assert lane.model.served == ["running", "high", "first", "second", "low"]


async def test_waiting_promotes_a_class():
    job = Errand("low", priority=LOW)
    now_s = job._served_s
    assert [job.rank(now_s + s)[0] for s in (0, 31, 61, 1000)] == [LOW, NORMAL, HIGH, HIGH]


async def test_one_call_too_many_is_refused_and_the_next_after_the_burst_is_not(lane):
    with contextlib.ExitStack() as places:
        for _ in range(4):
            places.enter_context(lane.admit())
        with pytest.raises(ServiceError, match="All slots are busy") as caught:
            places.enter_context(lane.admit())
    assert caught.value.code == "server_busy"
    with lane.admit() as model:
        assert model is lane.model


async def test_a_cancelled_call_is_not_served_any_more(lane):
    first, second = await begin(lane, Errand("first"), Errand("gone", steps=5))
    second.cancel()
    await asyncio.wait([second])
    lane.model.permits.release(100)
    await first
    assert await lane.run(Errand("next")) == "next is done"
    assert lane.model.served == ["first", "next"]
    assert lane.counters.cancelled == 1


async def test_a_call_whose_time_is_up_is_told_so(lane):
    running, late = await begin(lane, Errand("running"), Errand("late", timeout_s=0))
    lane.model.permits.release(100)
    with pytest.raises(ServiceError) as caught:
        await late
    assert caught.value.code == "timeout"
    await running
    assert "late" not in lane.model.served


async def test_a_fault_fails_every_call_and_ends_the_lane():
    lane = ModelThread(Runner, 4)
    lane.listener = Ear()
    lane.thread.start()
    await lane.listener.is_ready.wait()
    tasks = await begin(lane, Errand("fault"), Errand("neighbour"))
    lane.model.permits.release(1)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [result.code for result in results] == ["engine_failed"] * 2
    await lane.listener.is_over.wait()
    assert str(lane.listener.failure) == "a fault"


async def test_before_the_model_is_loaded_calls_are_told_to_come_back():
    lane = ModelThread(Runner, 4)
    with pytest.raises(ServiceError) as caught, lane.admit():
        pass
    assert caught.value.code == "model_loading"
    assert lane.step_age_s() is None
