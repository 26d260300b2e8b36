"""Which sequences run: the queue, the slots, and how much prompt a step may prefill.

Policy only: it moves sequences between "waiting", "prefilling" and "decoding" and touches no
array. Runs on the engine thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from shared.pb import common_pb2
from shared.priority import effective_class
from workers.text.cache.footprint import GROWTH_TOKENS, Footprint
from workers.text.engine.sequence import Sequence

# While sequences decode, a prefill chunk may take this many times what a decode step takes, so that
# running streams pause no longer.
_STALL_STEPS = 1.25
# A prompt that can be fed whole within this many is: its first token would otherwise wait for
# another step of the whole batch.
_WHOLE_STALL_STEPS = 2.2
# Prompts that arrived before any running stream had its first token may be fed whole within this
# many: requests that arrive together would otherwise join one by one, and a batch that is not full
# is slower for all. Long prompts are still fed in chunks.
_BURST_STALL_STEPS = 32.0
_MIN_STALL_S = 0.004
MIN_CHUNK_TOKENS = 8
# What a chunk may take while nobody decodes. A step that takes this long delays new requests and
# cancellations, and one that takes much longer would be killed as a hang.
_CHUNK_S = 4.0
# Where running the model takes long whatever the chunk's size, a few tokens more cost little.
_SLOW_CHUNK_S = 12.0
_SLOW_CHUNK_TOKENS = 32
# Attention makes a chunk slower the longer the context before it, so the speed of earlier chunks
# is no guide for one that is larger than this and than what was fed before it.
_TRUSTED_TOKENS = 512
# Prompts that prefill at the same time take turns of at most this many tokens.
_TURN_TOKENS = 128
# Prompts are fed side by side if the longest has at most this many times the tokens of the
# shortest.
_PADDED = 2.0


@dataclass(frozen=True)
class MemoryPlan:
    """Memory for the keys and values of running sequences.

    The prompt cache does not count: it is evicted when a sequence needs the memory.
    """

    footprint: Footprint
    budget_bytes: int

    def held_bytes(self, held: Iterable[Sequence]) -> int:
        """Return what sequences have reserved."""
        return sum(self.footprint.estimate_bytes(s.reserved_tokens) for s in held)

    def fits(self, sequence: Sequence, held: list[Sequence]) -> bool:
        """Return whether a sequence fits beside others; alone it always does.

        One that can never fit was refused on arrival.
        """
        return not held or self.held_bytes([*held, sequence]) <= self.budget_bytes


class Scheduler:
    """Orders waiting sequences and assigns slots.

    Args:
        slots: sequences that may be in the batch, prefilling ones included.
        chunk_tokens: prompt tokens of one step, at most.
        memory: what running sequences may hold.
        clock: seconds, monotonic.
        preempts: whether a high request may take a low one's slot.
        pads: whether prompts of different lengths can be fed in one pass.

    Attributes:
        waiting: accepted, holding no slot.
        prefilling: holding a slot, prompt not fed yet.
    """

    def __init__(
        self,
        slots: int,
        chunk_tokens: int,
        memory: MemoryPlan,
        clock: Callable[[], float] = time.monotonic,
        *,
        preempts: bool = True,
        pads: bool = False,
    ) -> None:
        self.slots = slots
        self.memory = memory
        self._preempts = preempts
        self._pads = pads
        self.waiting: list[Sequence] = []
        self.prefilling: list[Sequence] = []
        self._chunk_tokens = chunk_tokens
        self._clock = clock

    def next_waiting(self) -> Sequence | None:
        """Return the waiting sequence that is admitted next."""
        return min(self.waiting, key=self._turn, default=None)

    def _turn(self, sequence: Sequence) -> tuple[int, int]:
        """Return class and arrival; time in the queue raises the class, time in a slot does not."""
        until_s = self._clock() if sequence.slot_s is None else sequence.slot_s
        waited_s = until_s - sequence.queued_s - sequence.ran_s
        return effective_class(sequence.priority, waited_s), sequence.request.arrival_ns

    def admit(self, decoding: list[Sequence]) -> list[Sequence]:
        """Move waiting sequences into free slots and return them, in order."""
        admitted = []
        while (sequence := self.next_waiting()) is not None:
            held = [*decoding, *self.prefilling]
            if len(held) >= self.slots or not _together(sequence, held):
                break
            if not self.memory.fits(sequence, held):
                break
            self.waiting.remove(sequence)
            self.prefilling.append(sequence)
            taken = {other.slot for other in held}
            sequence.slot = next(slot for slot in range(self.slots) if slot not in taken)
            sequence.slot_s = self._clock()
            admitted.append(sequence)
        return admitted

    def put_back(self, sequence: Sequence) -> None:
        """Let a sequence that has lost its slot wait for another."""
        if sequence.slot_s is not None:
            sequence.ran_s += self._clock() - sequence.slot_s
            sequence.slot_s = None
        if sequence in self.prefilling:
            self.prefilling.remove(sequence)
        self.waiting.append(sequence)

    def victim(self, decoding: list[Sequence]) -> Sequence | None:
        """Return the sequence that must make room, if one must.

        All slots are busy and a high request waits: the youngest low one gives way, unless it
        has waited so long that it would be let in again before the high one.
        """
        first = self.next_waiting()
        held = [*decoding, *self.prefilling]
        full = len(held) >= self.slots
        if not self._preempts or first is None:
            return None
        if not full and self.memory.fits(first, held):
            return None
        if first.priority != common_pb2.PRIORITY_HIGH:
            return None
        low = [
            sequence
            for sequence in held
            if sequence.priority == common_pb2.PRIORITY_LOW
            and self._turn(sequence) > self._turn(first)
        ]
        return max(low, key=lambda sequence: sequence.request.arrival_ns, default=None)

    def overrun(self, decoding: list[Sequence]) -> Sequence | None:
        """Grow the reservations of open-ended sequences; return one that must make room.

        The youngest of the lowest class gives way; never the only one.
        """
        for sequence in decoding:
            if sequence.total_tokens >= sequence.reserved_tokens:
                sequence.reserved_tokens += GROWTH_TOKENS
        held = [*decoding, *self.prefilling]
        if len(held) < 2 or self.memory.held_bytes(held) <= self.memory.budget_bytes:
            return None
        return max(held, key=lambda sequence: sequence.rank)

    def chunk_tokens(
        self, step_s: float, tokens_in: Callable[[float], int], decoding: list[Sequence]
    ) -> int:
        """Return how many prompt tokens this step may prefill.

        Args:
            step_s: what a decode step has been taking.
            tokens_in: how many tokens can be prefilled in so many seconds.
            decoding: the streams that have to wait for it.
        """
        most = self._most_tokens(tokens_in)
        if not decoding:
            return most

        def within(steps: float) -> int:
            return tokens_in(max(_MIN_STALL_S, steps * step_s))

        untouched = [s for s in self.prefilling if s.fed_tokens <= s.cached_tokens]
        first_s = min(row.first_token_s for row in decoding)
        together = sorted(_left(s) for s in untouched if s.queued_s <= first_s)
        chosen = [
            within(_STALL_STEPS),
            _sum_within(together, within(_BURST_STALL_STEPS)),
            _sum_within(sorted(map(_left, untouched))[:1], within(_WHOLE_STALL_STEPS)),
        ]
        return min(most, max(MIN_CHUNK_TOKENS, *chosen))

    def _most_tokens(self, tokens_in: Callable[[float], int]) -> int:
        """Return how many prompt tokens any step may prefill."""
        slow = min(_SLOW_CHUNK_TOKENS, tokens_in(_SLOW_CHUNK_S))
        fed = max((s.fed_tokens - s.cached_tokens for s in self.prefilling), default=0)
        trusted = max(_TRUSTED_TOKENS, fed)
        return max(1, min(self._chunk_tokens, trusted, max(slow, tokens_in(_CHUNK_S))))

    def turns(self, budget_tokens: int) -> tuple[list[Sequence], int] | None:
        """Return who prefills next and how many tokens; None when nobody waits.

        Higher classes go first; inside a class prompts take turns, so that a short one does not
        wait for a long one. Several are named only where they can be fed whole, in one pass.
        """
        unfed = [sequence for sequence in self.prefilling if sequence.pending is None]
        if not unfed or budget_tokens <= 0:
            return None
        first = min(sequence.priority for sequence in unfed)
        rivals = [sequence for sequence in unfed if sequence.priority == first]
        chosen = self._side_by_side(rivals, budget_tokens) or rivals[:1]
        for sequence in chosen:
            self.prefilling.remove(sequence)
            self.prefilling.append(sequence)
        if len(chosen) == 1 < len(rivals):
            budget_tokens = min(budget_tokens, _TURN_TOKENS)
        return chosen, budget_tokens

    def _side_by_side(self, rivals: list[Sequence], budget_tokens: int) -> list[Sequence]:
        """Return the first of the rivals and those that can be fed whole beside it."""
        if not self._pads:
            return []
        chosen: list[Sequence] = []
        for sequence in rivals:
            lengths = [s.total_tokens for s in (*chosen, sequence)]
            whole = sequence.cache is None and sequence.next_limit(budget_tokens) >= lengths[-1]
            # What pads the short ones to the longest is computed for nothing.
            wide = max(lengths) > _PADDED * min(lengths)
            if whole and not wide and max(lengths) * len(lengths) <= budget_tokens:
                chosen.append(sequence)
            elif not chosen:
                break
        return chosen

    def take_fed(self) -> list[Sequence]:
        """Return the sequences whose prompt is fed: they leave for the batch."""
        fed = [sequence for sequence in self.prefilling if sequence.pending is not None]
        self.prefilling = [sequence for sequence in self.prefilling if sequence.pending is None]
        return fed

    def drop_ended(self) -> list[Sequence]:
        """Forget and return sequences that ended while they waited or prefilled."""
        ended = [sequence for sequence in (*self.waiting, *self.prefilling) if sequence.ended]
        if ended:
            self.waiting = [sequence for sequence in self.waiting if not sequence.ended]
            self.prefilling = [sequence for sequence in self.prefilling if not sequence.ended]
        return ended


def _together(sequence: Sequence, held: list[Sequence]) -> bool:
    """Return whether a sequence may run beside those that hold slots."""
    if sequence.suspect:
        return not held
    return not any(other.suspect for other in held)


def _left(sequence: Sequence) -> int:
    return sequence.total_tokens - sequence.fed_tokens


def _sum_within(sizes: Iterable[int], limit: int) -> int:
    """Return the sum of the leading sizes that together stay within a limit."""
    total = 0
    for size in sizes:
        if total + size > limit:
            break
        total += size
    return total
