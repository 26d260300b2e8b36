"""The unfinished sequences of an engine, by gateway and key.

Owns cancelling, deadlines, and which gateway gets the frames of a sequence. Which sequences hold
slots is the scheduler's. Runs on the engine thread.
"""

from __future__ import annotations

from collections import defaultdict

from shared.errors import ServiceError
from shared.pb import text_pb2 as pb
from shared.pb import worker_pb2
from workers.text.engine.sequence import Sequence

Frames = dict[str, list[pb.SequenceFrame]]


class ActiveRequests:
    """Every sequence whose final frame has not been taken.

    Args:
        counters: where cancelled, failed and completed sequences are counted.
    """

    def __init__(self, counters: worker_pb2.Counters) -> None:
        self._counters = counters
        self._sequences: dict[tuple[str, int], Sequence] = {}

    def add(self, sequence: Sequence) -> None:
        """Add a sequence; an earlier attempt of the same request is cancelled."""
        key = sequence.request.gateway_id, sequence.request.key
        if key in self._sequences:
            # The gateway does not read the earlier attempt any more.
            self._sequences[key].cancel()
        self._sequences[key] = sequence

    def cancel(self, gateway_id: str, key: int | None) -> None:
        """Cancel a request of a gateway; without a key, all of them."""
        for (owner, number), sequence in self._sequences.items():
            if owner == gateway_id and key in (None, number) and not sequence.ended:
                self._counters.cancelled += 1
                sequence.cancel()

    def expire(self, now_s: float) -> None:
        """Fail the sequences that are past their deadline."""
        for sequence in self._sequences.values():
            if now_s > sequence.deadline_s:
                self._fail(sequence, ServiceError("timeout", "The request took too long."))

    def fail_all(self) -> None:
        """Fail every sequence, since the engine can't continue."""
        error = ServiceError("engine_failed", "The model failed while it was computing.")
        for sequence in self._sequences.values():
            self._fail(sequence, error)

    def _fail(self, sequence: Sequence, error: ServiceError) -> None:
        if not sequence.ended:
            sequence.fail(error)
            self._counters.failed += 1

    def take_frames(self) -> Frames:
        """Return the frames since the last call, per gateway; ended sequences are removed."""
        frames: Frames = defaultdict(list)
        for key, sequence in list(self._sequences.items()):
            sequence.read()
            frame = sequence.take_frame()
            if frame is not None:
                frames[key[0]].append(frame)
            if sequence.ended:
                del self._sequences[key]
                self._counters.sequences_completed += sequence.completed
        return frames
