"""The engine thread: one step after the other, for the whole batch.

Owns the model and the loop that runs it. Commands come in through a queue, frames go out through
a callback, and other threads read the latest `EngineSnapshot`; they share nothing else. An
exception in a step fails every sequence with a typed error and ends the engine: MLX's state is
unknown then, and only a new process is safe.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable

from shared.pb import worker_pb2
from workers.text.engine.active_requests import ActiveRequests
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
from workers.text.engine.parts import EngineObserver, EngineParts
from workers.text.engine.sequence import Sequence
from workers.text.engine.snapshot import EngineSnapshot, take_snapshot

log = logging.getLogger(__name__)

# While steps are short, tokens become text after the next step has been launched, so that the
# device does not wait for Python. Launching a long step can block for most of it (the CPU
# backend's queue is short), and then the text of the last step must not be delayed by it.
_LAUNCH_FIRST_BELOW_S = 0.03
_IDLE_WAIT_S = 0.5


class Engine:
    """Runs sequences on one model.

    Args:
        load: loads what is run; called on the engine thread.

    Attributes:
        snapshot: the latest; replaced as a whole, so any thread may read it.
    """

    def __init__(self, load: Callable[[], EngineParts], observer: EngineObserver) -> None:
        self.snapshot = EngineSnapshot()
        self._load = load
        self._observer = observer
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._pace = Pace()
        self._progress_s: float | None = None
        self._worked_s = 0.0
        self._step_number = 0
        self._counters = worker_pb2.Counters()
        self._active = ActiveRequests(self._counters)
        self.thread = threading.Thread(target=self._run, name="engine", daemon=True)

    # ------------------------------------------------------ from other threads

    def put(self, command: Command) -> None:
        """Queue a command; the engine executes it between two steps."""
        self._commands.put(command)

    def stop(self) -> None:
        """End the thread after the current step."""
        self._commands.put(StopCommand())

    def step_age_s(self) -> float | None:
        """Return the seconds since the engine last made progress; None while loading."""
        progress_s = self.snapshot.progress_s
        return None if progress_s is None else time.monotonic() - progress_s

    # ---------------------------------------------------- on the engine thread

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            self._start()
            while self._step():
                pass
        # The thread's error boundary: whatever happened, every request must be answered.
        except BaseException as caught:
            failure = caught
            if self._progress_s is not None:
                log.exception("step %d failed", self._step_number + 1)
                self._active.fail_all()
                self._emit()
        self._observer.ended(failure)

    def _start(self) -> None:
        parts = self._load()
        self._batch, self._scheduler, self._reuse = Batch(parts.model), parts.scheduler, parts.reuse
        self._progress_s = self._worked_s = time.monotonic()
        self._publish_snapshot()
        self._observer.ready(parts)

    def _step(self) -> bool:
        """Do one step; return False after `stop`."""
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
            self._counters.decode_steps += 1
            self._counters.decode_tokens += len(sampled)

    def _receive(self) -> bool:
        """Execute queued commands, waiting for one if there is nothing to do; False: stop."""
        idle = not (self._batch.rows or self._scheduler.prefilling or self._scheduler.waiting)
        timeout_s = _IDLE_WAIT_S if idle else None
        while True:
            try:
                command = self._commands.get(idle, timeout_s)
            except queue.Empty:
                if idle:
                    self._observer.rest(time.monotonic() - self._worked_s)
                break
            self._worked_s = time.monotonic()
            if isinstance(command, StopCommand):
                return False
            self._execute(command)
            idle = False
        self._active.expire(time.monotonic())
        return True

    def _execute(self, command: SubmitCommand | CancelCommand | EngineCall) -> None:
        if isinstance(command, EngineCall):
            result = command.work()
            # Whoever has the result may look at the snapshot next.
            self._publish_snapshot()
            command.done(result)
            return
        if isinstance(command, SubmitCommand):
            self._active.add(command.sequence)
            self._scheduler.waiting.append(command.sequence)
            return
        self._active.cancel(command.gateway_id, command.key)

    def _retire(self) -> None:
        """Remove the sequences that have ended, and fill the free slots."""
        ended = [sequence for sequence in self._batch.rows if sequence.ended]
        for sequence in ended:
            self._reuse.keep_row(sequence, self._batch)
        self._batch.drop(ended)
        for sequence in self._scheduler.drop_ended():
            self._reuse.keep_part(sequence)
        for sequence in self._scheduler.admit(self._batch.rows):
            self._reuse.begin(sequence, self._running())
            self._counters.sequences_started += not sequence.started
            sequence.start(self._step_number)

    def _prefill(self) -> None:
        """Prefill as much prompt as this step may."""
        pace, scheduler = self._pace, self._scheduler
        if scheduler.prefilling:
            self._emit()
            self._show_load()
            # The time of the step in flight must not count as the chunk's.
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
            self._progress_s = now_s = time.monotonic()
            self.snapshot = self.snapshot._replace(progress_s=now_s)
            pace.note_prefill(fed, now_s - began_s)
        self._counters.mixed_steps += bool(self._batch.rows) and budget < allowed

    def _feed(self, sequences: list[Sequence], limit_tokens: int) -> int:
        """Prefill one chunk, or several whole prompts; return the tokens fed, with padding."""
        before = sum(sequence.fed_tokens for sequence in sequences)
        if len(sequences) > 1:
            took = self._batch.prefill_together(sequences)
        else:
            took = self._batch.prefill(sequences[0], sequences[0].next_limit(limit_tokens))
        self._counters.prefill_chunks += 1
        self._counters.prefill_tokens += sum(s.fed_tokens for s in sequences) - before
        return took

    def _note_fed(self, sequence: Sequence) -> None:
        if sequence.pending is None:
            sequence.progress()
            return
        first = self._batch.first(sequence)
        sequence.take_token(first.token, first.info)

    def _preempt(self) -> None:
        """Preempt a sequence whose slot a higher class needs, or that memory has run out for."""
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
        self._counters.preemptions += 1

    def _emit(self) -> None:
        """Turn tokens into events and publish them."""
        if frames := self._active.take_frames():
            self._observer.publish(self._step_number, frames)

    def _rest(self) -> None:
        """Note that a step is done."""
        self._progress_s = now_s = time.monotonic()
        if self._batch.rows or self._scheduler.prefilling:
            self._step_number += 1
            self._worked_s = now_s
        else:
            self._pace.pause()
        self._publish_snapshot()

    def _running(self) -> list[Sequence]:
        """Return the sequences that hold a slot."""
        return [*self._batch.rows, *self._scheduler.prefilling]

    def _show_load(self) -> None:
        """Publish a snapshot now if the load has changed: the rest of the step may take long.

        Call it after `_emit`: a gateway corrects the load of a heartbeat by the frames after it.
        """
        if (len(self._running()), len(self._scheduler.waiting)) != self.snapshot.load:
            self._publish_snapshot()

    def _publish_snapshot(self) -> None:
        before = self.snapshot
        self.snapshot = take_snapshot(
            self._step_number,
            self._progress_s,
            self._batch,
            self._scheduler,
            self._counters,
            self._reuse.cache,
        )
        if self.snapshot.load != before.load:
            self._observer.load_changed()
