"""A model thread runs calls in order of class and arrival, within a limit, and answers them all."""

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


class StepJob(Job):
    """A job that takes some steps; the one named "fault" raises."""

    def __init__(self, name, steps=1, priority=NORMAL, arrival=0, timeout_s=None):
        super().__init__(priority, arrival, timeout_s)
        self.name = name
        self.steps = steps


class FakeModel:
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


class Observer:
    def __init__(self):
        self.loop = asyncio.get_running_loop()
        self.is_ready = asyncio.Event()
        self.is_over = asyncio.Event()
        self.failure = None

    def ready(self):
        self.loop.call_soon_threadsafe(self.is_ready.set)

    def load_changed(self):
        pass

    def rest(self, idle_s):
        pass

    def ended(self, failure):
        self.failure = failure
        self.loop.call_soon_threadsafe(self.is_over.set)


@pytest.fixture
async def model_thread():
    """Start a thread for four calls on a FakeModel, whose steps need permits."""
    made = ModelThread(FakeModel, 4)
    made.observer = Observer()
    made.thread.start()
    await made.observer.is_ready.wait()
    yield made
    made.model.permits.release(1000)
    made.stop()
    await made.observer.is_over.wait()


async def begin(model_thread, *jobs):
    """Submit jobs, and wait until the thread has received them or serves the first."""
    tasks = [asyncio.create_task(model_thread.run(job)) for job in jobs]
    await until(lambda: model_thread.model.seen)
    return tasks


async def test_a_call_is_answered(model_thread):
    model_thread.model.permits.release(3)
    assert await model_thread.run(StepJob("a", steps=3)) == "a is done"
    assert model_thread.model.served == ["a"] * 3
    # Counted on the model thread, after the answer.
    await until(lambda: model_thread.counters.sequences_completed == 1)


async def test_class_goes_before_arrival(model_thread):
    (first,) = await begin(model_thread, StepJob("running", arrival=0))
    late = [
        StepJob("low", priority=LOW, arrival=1),
        StepJob("second", arrival=3),
        StepJob("first", arrival=2),
        StepJob("high", priority=HIGH, arrival=9),
    ]
    tasks = [asyncio.create_task(model_thread.run(job)) for job in late]
    await asyncio.sleep(0)
    model_thread.model.permits.release(100)
    await asyncio.gather(first, *tasks)
    assert model_thread.model.served == ["running", "high", "first", "second", "low"]


async def test_waiting_promotes_a_class():
    job = StepJob("low", priority=LOW)
    now_s = job._served_s
    assert [job.rank(now_s + s)[0] for s in (0, 31, 61, 1000)] == [LOW, NORMAL, HIGH, HIGH]


async def test_a_call_over_the_limit_is_refused_until_others_have_ended(model_thread):
    with contextlib.ExitStack() as admitted:
        for _ in range(4):
            admitted.enter_context(model_thread.admit())
        with pytest.raises(ServiceError, match="All slots are busy") as caught:
            admitted.enter_context(model_thread.admit())
    assert caught.value.code == "server_busy"
    with model_thread.admit() as model:
        assert model is model_thread.model


async def test_a_cancelled_call_is_not_served(model_thread):
    first, second = await begin(model_thread, StepJob("first"), StepJob("gone", steps=5))
    second.cancel()
    await asyncio.wait([second])
    model_thread.model.permits.release(100)
    await first
    assert await model_thread.run(StepJob("next")) == "next is done"
    assert model_thread.model.served == ["first", "next"]
    await until(lambda: model_thread.counters.cancelled == 1)


async def test_a_call_past_its_deadline_fails_with_timeout(model_thread):
    running, late = await begin(model_thread, StepJob("running"), StepJob("late", timeout_s=0))
    model_thread.model.permits.release(100)
    with pytest.raises(ServiceError) as caught:
        await late
    assert caught.value.code == "timeout"
    await running
    assert "late" not in model_thread.model.served


async def test_a_step_that_raises_fails_every_call_and_ends_the_thread():
    model_thread = ModelThread(FakeModel, 4)
    model_thread.observer = Observer()
    model_thread.thread.start()
    await model_thread.observer.is_ready.wait()
    tasks = await begin(model_thread, StepJob("fault"), StepJob("neighbour"))
    model_thread.model.permits.release(1)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [result.code for result in results] == ["engine_failed"] * 2
    await model_thread.observer.is_over.wait()
    assert str(model_thread.observer.failure) == "a fault"


async def test_calls_fail_with_model_loading_until_the_model_is_loaded():
    model_thread = ModelThread(FakeModel, 4)
    with pytest.raises(ServiceError) as caught, model_thread.admit():
        pass
    assert caught.value.code == "model_loading"
    assert model_thread.step_age_s() is None
