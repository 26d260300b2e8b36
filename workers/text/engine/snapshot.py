"""The state of engine and prompt cache at one moment, for every thread but the engine's own.

The engine thread makes a snapshot after each step and after each change of its load; nothing in
it changes afterwards. Other threads read no other state of the engine. Plain tuples, since making
one must not show in the time of a step: 32 objects of a class take longer than all the rest.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from shared.pb import text_pb2 as pb
from shared.pb import worker_pb2
from workers.text.cache.prefix_cache import PrefixCache
from workers.text.engine.batch import Batch
from workers.text.engine.scheduler import Scheduler

# Slot, request id, tokens of the prompt, tokens of the completion, whether it decodes.
RunningRequest: TypeAlias = tuple[int, str, int, int, bool]


class EngineSnapshot(NamedTuple):
    """State of an engine; the defaults are those while the model loads.

    Attributes:
        step: number of the last finished step.
        progress_s: when the engine last finished a step or a prefill chunk, or found nothing to do,
            on the monotonic clock; None while the model loads.
        running: requests that hold a slot.
        waiting: ids of those that hold none.
        oldest_queued_s: when the oldest of those was queued; None when there are none.
        kv_bytes: held by the batch's cache.
        counters: without those of the prompt cache. Read only.
        cache: state of the prompt cache. Read only.
    """

    step: int = 0
    progress_s: float | None = None
    running: tuple[RunningRequest, ...] = ()
    waiting: tuple[str, ...] = ()
    oldest_queued_s: float | None = None
    kv_bytes: int = 0
    counters: worker_pb2.Counters = worker_pb2.Counters()
    cache: pb.CacheStatsReply = pb.CacheStatsReply()

    @property
    def load(self) -> tuple[int, int]:
        """How many requests run and how many wait."""
        return len(self.running), len(self.waiting)


def take_snapshot(
    step: int,
    progress_s: float | None,
    batch: Batch,
    scheduler: Scheduler,
    counters: worker_pb2.Counters,
    cache: PrefixCache | None,
) -> EngineSnapshot:
    """Return the state of now. Engine thread only."""
    waiting, copied = scheduler.waiting, worker_pb2.Counters()
    copied.CopyFrom(counters)
    return EngineSnapshot(
        step=step,
        progress_s=progress_s,
        running=tuple(
            [
                (s.slot, s.request_id, len(s.prompt), len(s.ids), s.first_token_s > 0)
                for s in (*batch.rows, *scheduler.prefilling)
            ]
        ),
        waiting=tuple([sequence.request_id for sequence in waiting]),
        oldest_queued_s=min((sequence.queued_s for sequence in waiting), default=None),
        kv_bytes=batch.kv_bytes,
        counters=copied,
        cache=pb.CacheStatsReply() if cache is None else cache.stats(),
    )
