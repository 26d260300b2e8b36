"""The engine thread: one step after the other, for the whole batch.

Owns the model and the loop that runs it. Requests come in through a queue, frames go out through
one callback; nothing else crosses the thread's border but plain numbers for the heartbeat. An
exception in a step fails every sequence with a typed error and ends the engine: MLX's state is
unknown then, and a new process is the only safe place to go on.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from shared.pb import worker_pb2
from workers import runtime
from workers.text.engine.active_requests import ActiveRequests, Frames
from workers.text.engine.batch import Batch
from workers.text.engine.command import (
    CancelCommand,
    Command,
    EngineCall,
    StopCommand,
    SubmitCommand,
)
from workers.text.engine.next_token import Sampled
from workers.text.engine.pace import Pace
from workers.text.engine.reuse import Reuse
from workers.text.engine.scheduler import Scheduler
from workers.text.engine.sequence import Sequence
from workers.text.model import TextModel

log = logging.getLogger(__name__)

# While steps are short, text is worked out after the next step has been launched, so that the
# processor does not wait for Python. Launching a long step can block for most of it (the CPU
# backend's queue is short), and then the text of the last one must not wait behind it.
_LAUNCH_FIRST_BELOW_S = 0.03
_IDLE_WAIT_S = 0.5


@dataclass(frozen=True)
class EngineParts:
    """What an engine runs: the model, who schedules it, what is reused between prompts."""

    model: TextModel
    scheduler: Scheduler
    reuse: Reuse


class EngineObserver(Protocol):
    """Who hears from the engine. Every method is called on the engine thread."""

    def ready(self, parts: EngineParts) -> None:
        """The model is loaded; sequences are taken."""

    def publish(self, step: int, frames: Frames) -> None:
        """What a step did, per gateway id; without any when only the load has changed."""

    def ended(self, failure: BaseException | None) -> None:
        """The thread is about to end; with what ended it, unless it was told to stop."""


class Engine:
    """Runs sequences on one model.

    Args:
        load: makes what runs; called on the engine thread.

    Attributes:
        step: number of the last finished step.
        counters: since the start; they only grow.
        kv_bytes: held by the batch's cache.
    """

    def __init__(
        self,
        load: Callable[[], EngineParts],
        listener: EngineObserver,
    ) -> None:
        self._load = load
        self._listener = listener
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._loaded = False
        self._alive_s = time.monotonic()
        self._pace = Pace()
        self._load_shown = (0, 0)
        self._has_worked = False
        self._worked_s = 0.0
        self.step = 0
        self.kv_bytes = 0
        self.counters = worker_pb2.Counters()
        self._roster = ActiveRequests(self.counters)
        self.thread = threading.Thread(target=self._run, name="engine", daemon=True)

    # ------------------------------------------------------ from other threads

    def put(self, command: Command) -> None:
        """Hand a command to the engine; it is looked at between two steps."""
        self._commands.put(command)

    def stop(self) -> None:
        """End the thread after the step that runs."""
        self._commands.put(StopCommand())

    def step_age_s(self) -> float | None:
        """Return the seconds since the engine last did something; None while loading."""
        return time.monotonic() - self._alive_s if self._loaded else None

    def running(self) -> list[Sequence]:
        """Return the sequences that hold a slot."""
        return [*self._batch.rows, *self._scheduler.prefilling] if self._loaded else []

    def waiting(self) -> list[Sequence]:
        """Return the sequences that hold none."""
        return list(self._scheduler.waiting) if self._loaded else []

    # ----------------------------------------------------------- the own thread

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            self._start()
            while self._step():
                pass
        # The rim of the thread: whatever happened, nobody may be left waiting.
        except BaseException as caught:
            failure = caught
            if self._loaded:
                log.exception("step %d failed", self.step + 1)
                self._roster.fail_all()
                self._emit()
        self._listener.ended(failure)

    def _start(self) -> None:
        parts = self._load()
        self._batch, self._scheduler, self._reuse = Batch(parts.model), parts.scheduler, parts.reuse
        self._alive_s = time.monotonic()
        self._loaded = True
        self._listener.ready(parts)

    def _step(self) -> bool:
        """Do one step; return False when told to stop."""
        batch, scheduler = self._batch, self._scheduler
        batch.build()
        is_short = self._pace.step_s < _LAUNCH_FIRST_BELOW_S
        is_launched = is_short and not scheduler.prefilling and batch.launch_ahead()
        self._account(batch.collect())
        if not self._receive():
            return False
        launch_first = is_short and not scheduler.prefilling
        if not launch_first:
            self._emit()
        self._retire()
        self._prefill()
        if not is_launched:
            batch.launch()
        batch.join([sequence for sequence in scheduler.take_fed() if not sequence.ended])
        if launch_first:
            self._emit()
        self._preempt()
        self._rest()
        return True

    def _account(self, sampled: list[Sampled]) -> None:
        """Give each sequence the token it got."""
        for item in sampled:
            if not item.sequence.ended:
                item.sequence.take_token(item.token, item.info)
        if sampled:
            self._pace.note_step()
            self.counters.decode_steps += 1
            self.counters.decode_tokens += len(sampled)

    def _receive(self) -> bool:
        """Take in what has arrived; wait for it when there is nothing else to do."""
        idle = not (self._batch.rows or self._scheduler.prefilling or self._scheduler.waiting)
        timeout_s = _IDLE_WAIT_S if idle else None
        while True:
            try:
                command = self._commands.get(idle, timeout_s)
            except queue.Empty:
                if idle and self._is_cold():
                    self._has_worked = False
                    runtime.release_memory()
                break
            self._has_worked = True
            if isinstance(command, StopCommand):
                return False
            self._obey(command)
            idle = False
        self._roster.expire(time.monotonic())
        return True

    def _is_cold(self) -> bool:
        """Return whether nothing has run for so long that nothing may follow soon."""
        return self._has_worked and time.monotonic() > self._worked_s + runtime.RELEASE_AFTER_S

    def _obey(self, command: SubmitCommand | CancelCommand | EngineCall) -> None:
        if isinstance(command, EngineCall):
            command.done(command.work())
            return
        if isinstance(command, SubmitCommand):
            self._roster.enter(command.sequence)
            self._scheduler.waiting.append(command.sequence)
            return
        self._roster.cancel(command.gateway_id, command.key)

    def _retire(self) -> None:
        """Let go of every sequence that has ended, and fill the slots."""
        ended = [sequence for sequence in self._batch.rows if sequence.ended]
        for sequence in ended:
            self._reuse.keep_row(sequence, self._batch)
        self._batch.drop(ended)
        for sequence in self._scheduler.drop_ended():
            self._reuse.keep_part(sequence)
        for sequence in self._scheduler.admit(self._batch.rows):
            self._reuse.begin(sequence, self.running())
            self.counters.sequences_started += not sequence.started
            sequence.start(self.step)

    def _prefill(self) -> None:
        """Prefill as much prompt as this step may."""
        pace, scheduler = self._pace, self._scheduler
        if scheduler.prefilling:
            self._emit()
            # What is in flight is no part of what a chunk takes.
            self._batch.wait()
        budget = scheduler.chunk_tokens(pace.step_s, pace.prefill_tokens, self._batch.rows)
        allowed = budget
        while (turn := scheduler.turns(budget)) is not None:
            sequences, limit = turn
            began_s = time.monotonic()
            fed = self._feed(sequences, limit)
            for sequence in sequences:
                self._note_fed(sequence)
            # A first token must not wait for the next step.
            self._emit()
            for sequence in sequences:
                self._reuse.keep_prompt(sequence)
            budget -= fed
            pace.note_prefill(fed, time.monotonic() - began_s)
        self.counters.mixed_steps += bool(self._batch.rows) and budget < allowed

    def _feed(self, sequences: list[Sequence], limit_tokens: int) -> int:
        """Prefill one chunk, or several whole prompts; return the tokens it took, with padding."""
        before = sum(sequence.fed_tokens for sequence in sequences)
        if len(sequences) > 1:
            took = self._batch.prefill_together(sequences)
        else:
            took = self._batch.prefill(sequences[0], sequences[0].next_limit(limit_tokens))
        self.counters.prefill_chunks += 1
        self.counters.prefill_tokens += sum(s.fed_tokens for s in sequences) - before
        return took

    def _note_fed(self, sequence: Sequence) -> None:
        if sequence.pending is None:
            sequence.progress()
            return
        first = self._batch.first(sequence)
        sequence.take_token(first.token, first.info)

    def _preempt(self) -> None:
        """Take out a low sequence whose slot a high one needs, or one there is no memory for."""
        rows = self._batch.rows
        victim = self._scheduler.victim(rows)
        spills = victim is None
        if spills:
            victim = self._scheduler.overrun(rows)
        if victim is None:
            return
        if victim in rows:
            self._account(self._batch.collect())
            self._emit()
            if victim.ended:
                return
            self._batch.take(victim)
        if spills:
            self._reuse.spill(victim)
        self._scheduler.put_back(victim)
        self.counters.preemptions += 1

    def _emit(self) -> None:
        """Turn tokens into events and publish them."""
        if frames := self._roster.take_frames():
            self._listener.publish(self.step, frames)

    def _rest(self) -> None:
        """Note that a step is done."""
        self._alive_s = time.monotonic()
        self.kv_bytes = self._batch.kv_bytes
        load = (
            len(self._batch.rows) + len(self._scheduler.prefilling),
            len(self._scheduler.waiting),
        )
        if load != self._load_shown:
            self._load_shown = load
            self._listener.publish(self.step, {})
        if self._batch.rows or self._scheduler.prefilling:
            self.step += 1
            self._worked_s = self._alive_s
        else:
            self._pace.pause()
