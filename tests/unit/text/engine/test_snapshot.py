"""What other threads see of an engine: a snapshot per step that never changes afterwards."""

from __future__ import annotations

import queue
from dataclasses import replace

import mlx.core as mx
import pytest
from mlx_lm.models.cache import KVCache

from tests.unit.text import tiny_tokenizer
from tests.unit.text.request import make_model, make_waiting
from workers.text.cache.prefix_cache import PrefixCache, PrefixLimits
from workers.text.engine.command import EngineCall, SubmitCommand
from workers.text.engine.loop import Engine
from workers.text.engine.parts import EngineParts
from workers.text.engine.reuse import Reuse
from workers.text.engine.scheduler import MemoryPlan, Scheduler

TOKENIZER = tiny_tokenizer.byte_level()
VOCABULARY = make_model(TOKENIZER).vocabulary
STEPS = 5


class Network:
    """Always the same logits; the cache holds zeros."""

    def __call__(self, tokens, cache):
        rows, length = tokens.shape
        for part in cache:
            part.update_and_fetch(*[mx.zeros((rows, 1, length, 8))] * 2)
        return mx.zeros((rows, length, len(TOKENIZER)))


class Observer:
    """Keeps the engine's snapshot at each of its calls."""

    def __init__(self):
        self.loads = queue.SimpleQueue()
        self.seen = []
        self.engine = None

    def ready(self, parts):
        pass

    def publish(self, step, frames):
        self.seen.append((self.engine.snapshot, str(self.engine.snapshot)))

    def load_changed(self):
        self.loads.put(self.engine.snapshot)

    def ended(self, failure):
        assert failure is None


@pytest.fixture
def observer():
    return Observer()


@pytest.fixture
def engine(observer):
    network = Network()
    model = replace(
        make_model(TOKENIZER), network=network, new_cache=lambda: [KVCache()], end_ids=frozenset()
    )
    plan = MemoryPlan(model.footprint, 10**9)

    def load():
        cache = PrefixCache(PrefixLimits(10**6, 10, 60.0, 1))
        return EngineParts(model, Scheduler(2, 512, plan), Reuse(cache, plan))

    made = observer.engine = Engine(load, observer)
    assert made.step_age_s() is None
    made.thread.start()
    yield made
    made.stop()
    made.thread.join(10)


def submit(engine, name):
    sequence = make_waiting(VOCABULARY, max_tokens=STEPS)
    sequence.request.request_id = name
    sequence.request.key = int(name)
    engine.put(SubmitCommand(sequence))


def test_every_change_of_the_load_is_a_snapshot_of_its_own(engine, observer):
    submit(engine, "1")
    begun = observer.loads.get(timeout=10)
    while begun.load != (1, 0):
        begun = observer.loads.get(timeout=10)
    ended = observer.loads.get(timeout=10)
    assert [request_id for _, request_id, *_ in begun.running] == ["1"]
    assert ended.load == (0, 0)
    assert ended.kv_bytes == 0
    assert ended.counters.sequences_completed == 1
    assert ended.cache.enabled
    # What was published before has not changed since.
    assert begun.load == (1, 0)
    assert begun.counters.sequences_completed == 0
    assert all(str(snapshot) == text for snapshot, text in observer.seen)


def test_a_snapshot_includes_what_a_call_between_two_steps_did(engine):
    steps = queue.SimpleQueue()
    engine.put(EngineCall(lambda: engine.snapshot, steps.put))
    before = steps.get(timeout=10)
    assert engine.snapshot is not before
    assert engine.step_age_s() < 10
