"""The heartbeat of a text worker, made of the engine's latest snapshot.

Runs on the event loop.
"""

from __future__ import annotations

import time

from shared.pb import worker_pb2
from workers import runtime
from workers.text.engine.snapshot import EngineSnapshot
from workers.text.ready import Ready


def make_heartbeat(snapshot: EngineSnapshot, ready: Ready) -> worker_pb2.Heartbeat:
    now_s, cache = time.monotonic(), snapshot.cache
    active, queued = snapshot.load
    memory = runtime.read_memory()
    memory.kv_bytes = snapshot.kv_bytes
    memory.prompt_cache_bytes = cache.bytes
    memory.budget_bytes = ready.budget_bytes
    return worker_pb2.Heartbeat(
        step=snapshot.step,
        step_age_ms=_age_ms(now_s, snapshot.progress_s),
        slots_total=ready.card.max_batch_size,
        slots_active=active,
        queue_depth=queued,
        queue_age_ms=_age_ms(now_s, snapshot.oldest_queued_s),
        memory=memory,
        counters=_count(snapshot),
        prompt_cache_entries=cache.entries,
    )


def _age_ms(now_s: float, since_s: float | None) -> int:
    return 0 if since_s is None else int((now_s - since_s) * 1000)


def _count(snapshot: EngineSnapshot) -> worker_pb2.Counters:
    counters, cache = worker_pb2.Counters(), snapshot.cache
    counters.CopyFrom(snapshot.counters)
    counters.prompt_cache_lookups = cache.lookups
    counters.prompt_cache_hits = cache.hits
    counters.prompt_cache_tokens_reused = cache.tokens_reused
    counters.prompt_cache_evictions_lru = cache.evictions_lru
    counters.prompt_cache_evictions_ttl = cache.evictions_ttl
    return counters
