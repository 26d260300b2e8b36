"""The state of one request in the engine.

Created on the render thread, then used by the engine thread alone. Policy is the scheduler's,
arrays are the batch's.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import mlx.core as mx

from shared.errors import ServiceError, to_message
from shared.pb import common_pb2
from shared.pb import text_pb2 as pb
from workers.text.engine.answer_interface import Constraint, EventDecoder
from workers.text.sampling.filter import SamplingRule
from workers.text.sampling.logprob import Logprob
from workers.text.sampling.penalty import PenaltyRule
from workers.text.sampling.repetition import LoopRule

log = logging.getLogger(__name__)

Reason = pb.Finished
# Reasons for which an answer is incomplete.
_LIMITS = (Reason.REASON_MAX_TOKENS, Reason.REASON_CONTEXT)


@dataclass(eq=False)
class Sequence:
    """One request: its prompt, its rules, and the completion so far.

    Attributes:
        prompt: ids of the rendered prompt.
        ids: ids sampled so far, those of earlier attempts included.
        fed_tokens: tokens of prompt + ids whose keys and values the cache holds.
        cache: this row's own cache while it is not in the batch; None before prefill.
        pending: the sampled token that has not been fed, while taken out of the batch.
        reserved_tokens: prompt and completion tokens that memory is reserved for.
        namespace: key of the prompt cache; None when the request does not use it.
        snapshots: prompt positions worth keeping where a cache can't be trimmed.
        must_call: a tool call was forced; an answer without one is logged as a warning.
        guide: limits what is sampled; None when every token is allowed.
        logprobs: alternatives per token to report; None when not asked for.
        slot: index of the one it holds, or held last.
        slot_s: when it got the slot it holds; None while it waits.
        ran_s: how long it held earlier ones.
        ended: finished, failed or cancelled.
        completed: ended without an error.
    """

    request: pb.GenerateRequest
    prompt: list[int]
    sampling: SamplingRule
    penalty: PenaltyRule
    loop: LoopRule
    output: EventDecoder
    end_ids: frozenset[int]
    max_tokens: int
    context_tokens: int
    reserved_tokens: int
    namespace: bytes | None = None
    snapshots: tuple[int, ...] = ()
    guide: Constraint | None = None
    must_call: bool = False
    logprobs: int | None = None
    queued_s: float = field(default_factory=time.monotonic)
    slot: int = 0
    slot_s: float | None = None
    ran_s: float = 0.0

    ids: list[int] = field(default_factory=list)
    fed_tokens: int = 0
    cached_tokens: int = 0
    cache: list[Any] | None = None
    pending: mx.array | None = None
    pending_logprob: Logprob | None = None
    started: bool = False
    ended: bool = False
    completed: bool = False
    started_s: float = 0.0
    first_token_s: float = 0.0
    _frame_ids: list[int] = field(default_factory=list)
    _frame_events: list[pb.Event] = field(default_factory=list)
    # Sampled, not yet turned into text: that happens after the next launch.
    _unread: list[tuple[int, pb.TokenInfo | None]] = field(default_factory=list)

    @cached_property
    def request_id(self) -> str:
        """Read once: a snapshot of every step needs it."""
        return self.request.request_id

    @property
    def feed(self) -> list[int]:
        """Every id the cache must hold before the next token can be sampled."""
        return self.prompt + self.ids

    @property
    def total_tokens(self) -> int:
        """How many ids `feed` has."""
        return len(self.prompt) + len(self.ids)

    @property
    def rank(self) -> tuple[int, int]:
        """Order among waiting sequences: class, then arrival."""
        return self.priority, self.request.arrival_ns

    @property
    def priority(self) -> int:
        """1 high, 2 normal, 3 low."""
        return self.request.priority or common_pb2.PRIORITY_NORMAL

    @property
    def suspect(self) -> bool:
        """Whether it must run alone: until a new token shows that it does not crash the worker."""
        return self.request.isolate and len(self.ids) <= len(self.request.forced_ids)

    @property
    def deadline_s(self) -> float:
        """On the monotonic clock; infinite without a time limit."""
        limit_ms = self.request.timeout_ms
        return self.queued_s + limit_ms / 1000 if limit_ms else float("inf")

    def replay(self) -> None:
        """Take the ids of earlier attempts without emitting their events again.

        Ends the sequence if they already complete it.
        """
        for token in self.request.forced_ids:
            self.ids.append(token)
            if token not in self.end_ids:
                # With log-probabilities every token opens the block, visible or not.
                info = None if self.logprobs is None else pb.TokenInfo(id=token)
                self.output.feed(token, info)
                self._follow(token)
        reason = self._reason() if self.ids else None
        if self.output.stop_string is not None:
            self.finish(Reason.REASON_STOP)
        elif reason is not None:
            self.finish(reason)

    def _follow(self, token: int) -> None:
        if self.guide is not None:
            self.guide.follow(token)

    def next_limit(self, budget_tokens: int) -> int:
        """Return how many tokens to feed at most, so as to stop at the next snapshot."""
        ahead = [point - self.fed_tokens for point in self.snapshots if point > self.fed_tokens]
        return min([budget_tokens, *ahead])

    def start(self, step: int) -> None:
        """Note that prefill begins."""
        if not self.started:
            self.started = True
            self.started_s = time.monotonic()
            started = pb.Started(step=step, cached_tokens=self.cached_tokens, slot=self.slot)
            self._frame_events.append(pb.Event(started=started))

    def progress(self) -> None:
        """Note how far prefill has come."""
        done = min(self.fed_tokens, len(self.prompt))
        note = pb.PromptProgress(
            done_tokens=done,
            total_tokens=len(self.prompt),
            elapsed_ms=(time.monotonic() - self.started_s) * 1000,
        )
        self._frame_events.append(pb.Event(prompt_progress=note))

    def take_token(self, token: int, info: pb.TokenInfo | None) -> None:
        """Append a sampled id.

        Ends the sequence where the id alone says so; `read` decodes its text, and may end the
        sequence at a stop string.
        """
        if not self.first_token_s:
            self.first_token_s = time.monotonic()
        self.ids.append(token)
        self._unread.append((token, info))
        if self.guide is not None:
            # What the guide allows next depends on the text so far.
            self.read()
        else:
            self.ended = self._reason() is not None

    def read(self) -> None:
        """Turn the ids taken since the last call into events; may end the sequence."""
        if not self._unread:
            return
        for token, info in self._unread:
            self._frame_ids.append(token)
            if token not in self.end_ids:
                self._add_events(self.output.feed(token, info))
                self._follow(token)
            if self.guide is not None and self.guide.broken:
                self.fail(ServiceError("internal", "The answer does not follow its grammar."))
                return
            if self.output.stop_string is not None:
                self.finish(Reason.REASON_STOP)
                return
        self._unread.clear()
        reason = self._reason()
        if reason is not None:
            self.finish(reason)

    def _add_events(self, events: list[pb.Event]) -> None:
        if self.request.with_timings:
            timings = self._timings()
            for event in events:
                if event.HasField("delta"):
                    event.delta.timings.CopyFrom(timings)
        self._frame_events += events

    def _reason(self) -> pb.Finished.Reason.ValueType | None:
        if self.ids and self.ids[-1] in self.end_ids:
            return Reason.REASON_EOS
        if self.guide is not None and self.guide.complete:
            return Reason.REASON_GRAMMAR
        if len(self.ids) >= self.max_tokens:
            full = self.total_tokens >= self.context_tokens
            return Reason.REASON_CONTEXT if full else Reason.REASON_MAX_TOKENS
        return Reason.REASON_LOOP if self.loop.matches(self.ids) else None

    def finish(self, reason: pb.Finished.Reason.ValueType) -> None:
        """End without an error: flush the text and add the final event."""
        self.ended = self.completed = True
        self._unread.clear()
        self._add_events(self.output.finish(cut=reason in _LIMITS))
        if self.must_call and not self.output.called:
            log.warning("%s: no tool call, although one was forced", self.request_id)
        stop = self.output.stop_string
        if stop is not None:
            reason = Reason.REASON_STOP
        finished = pb.Finished(
            reason=reason, stop_string=stop or "", usage=self._usage(), timings=self._timings()
        )
        self._frame_events.append(pb.Event(finished=finished))

    def fail(self, error: ServiceError) -> None:
        """End with an error."""
        self.ended = True
        self._unread.clear()
        self._frame_events.append(pb.Event(failed=pb.Failed(error=to_message(error))))

    def cancel(self) -> None:
        """End without an event: the gateway does not read it any more."""
        self.ended = True
        self._unread.clear()
        self._frame_ids.clear()
        self._frame_events.clear()

    def release(self) -> None:
        """Free the memory of the row."""
        self.cache = self.pending = self.pending_logprob = None

    def take_frame(self) -> pb.SequenceFrame | None:
        """Return ids and events since the last call, or None."""
        if not self._frame_ids and not self._frame_events:
            return None
        frame = pb.SequenceFrame(
            key=self.request.key,
            attempt=self.request.attempt,
            token_ids=self._frame_ids,
            events=self._frame_events,
        )
        self._frame_ids, self._frame_events = [], []
        return frame

    def _usage(self) -> common_pb2.Usage:
        return common_pb2.Usage(
            prompt_tokens=len(self.prompt),
            completion_tokens=len(self.ids),
            reasoning_tokens=self.output.reasoning_tokens,
            cached_tokens=self.cached_tokens,
        )

    def _timings(self) -> pb.Timings:
        now = time.monotonic()
        started = self.started_s or now
        first = self.first_token_s or now
        return pb.Timings(
            queue_ms=(started - self.queued_s) * 1000,
            prompt_ms=(first - started) * 1000,
            predicted_ms=(now - first) * 1000,
        )
