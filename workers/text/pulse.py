"""What a text worker says of itself on every Watch, and how often.

Owns the heartbeat: where each of its numbers comes from, and that it is sent once a second and
whenever the load has changed. Runs on the event loop; what it reads of the engine are plain
numbers that the engine thread may be changing.
"""

from __future__ import annotations

import time

from shared.pb import text_pb2 as pb
from shared.pb import worker_pb2
from workers import runtime
from workers.text.engine.loop import Engine
from workers.text.ready import Ready

HEARTBEAT_S = 1.0


class HeartbeatStream:
    """Decides when a frame of one Watch carries a heartbeat."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._load: tuple[int, int] | None = None
        self._sent_s = 0.0

    def due(self) -> bool:
        """Return whether a heartbeat is due now."""
        now_s, load = time.monotonic(), _load(self._engine)
        if load == self._load and now_s - self._sent_s < HEARTBEAT_S * 0.9:
            return False
        self._load, self._sent_s = load, now_s
        return True


def read_heartbeat(engine: Engine, ready: Ready | None) -> worker_pb2.Heartbeat:
    """Return how an engine is doing; while the model loads there is little to say."""
    active, queued = _load(engine)
    now_s = time.monotonic()
    oldest_s = min((sequence.queued_s for sequence in engine.waiting()), default=now_s)
    cache = ready.cache if ready is not None else None
    cached = cache.stats() if cache is not None else pb.CacheStatsReply()
    memory = runtime.read_memory()
    memory.kv_bytes = engine.kv_bytes
    memory.prompt_cache_bytes = cached.bytes
    memory.budget_bytes = ready.budget_bytes if ready is not None else 0
    return worker_pb2.Heartbeat(
        step=engine.step,
        step_age_ms=int((engine.step_age_s() or 0.0) * 1000),
        slots_total=ready.card.max_batch_size if ready is not None else 0,
        slots_active=active,
        queue_depth=queued,
        queue_age_ms=int((now_s - oldest_s) * 1000),
        memory=memory,
        counters=_count(engine, cached),
        prompt_cache_entries=cached.entries,
    )


def _load(engine: Engine) -> tuple[int, int]:
    return len(engine.running()), len(engine.waiting())


def _count(engine: Engine, cached: pb.CacheStatsReply) -> worker_pb2.Counters:
    counters = worker_pb2.Counters()
    counters.CopyFrom(engine.counters)
    counters.prompt_cache_lookups = cached.lookups
    counters.prompt_cache_hits = cached.hits
    counters.prompt_cache_tokens_reused = cached.tokens_reused
    counters.prompt_cache_evictions_lru = cached.evictions_lru
    counters.prompt_cache_evictions_ttl = cached.evictions_ttl
    return counters
