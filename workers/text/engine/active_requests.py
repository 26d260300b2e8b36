"""The sequences of an engine by whose they are: of which gateway, under which key.

Owns who is told what: each gateway gets the frames of its own requests, and may drop them; what
ends for everybody ends with an error of its own. Which of them hold slots is the scheduler's.
Runs on the engine thread.
"""

from __future__ import annotations

from collections import defaultdict

from shared.errors import ServiceError
from shared.pb import text_pb2 as pb
from shared.pb import worker_pb2
from workers.text.engine.sequence import Sequence

Frames = dict[str, list[pb.SequenceFrame]]


class ActiveRequests:
    """Every sequence that has not told its end yet.

    Args:
        counters: that ends are counted in.
    """

    def __init__(self, counters: worker_pb2.Counters) -> None:
        self._counters = counters
        self._sequences: dict[tuple[str, int], Sequence] = {}

    def enter(self, sequence: Sequence) -> None:
        """Take a sequence in; an earlier attempt of the same request is dropped."""
        place = sequence.request.gateway_id, sequence.request.key
        if place in self._sequences:
            # The gateway has given up on its last attempt.
            self._sequences[place].cancel()
        self._sequences[place] = sequence

    def cancel(self, gateway_id: str, key: int | None) -> None:
        """Drop a request of a gateway; without a key, all of them."""
        for (owner, number), sequence in self._sequences.items():
            if owner == gateway_id and key in (None, number) and not sequence.ended:
                self._counters.cancelled += 1
                sequence.cancel()

    def expire(self, now_s: float) -> None:
        """Fail the sequences whose time is up."""
        for sequence in self._sequences.values():
            if now_s > sequence.deadline_s:
                self._fail(sequence, ServiceError("timeout", "The request took too long."))

    def fail_all(self) -> None:
        """Fail every sequence: the engine can't go on."""
        error = ServiceError("engine_failed", "The model failed while it was computing.")
        for sequence in self._sequences.values():
            self._fail(sequence, error)

    def _fail(self, sequence: Sequence, error: ServiceError) -> None:
        if not sequence.ended:
            sequence.fail(error)
            self._counters.failed += 1

    def take_frames(self) -> Frames:
        """Return what has happened since the last call, per gateway; forget who has ended."""
        frames: Frames = defaultdict(list)
        for place, sequence in list(self._sequences.items()):
            sequence.read()
            frame = sequence.take_frame()
            if frame is not None:
                frames[place[0]].append(frame)
            if sequence.ended:
                del self._sequences[place]
                self._counters.sequences_completed += sequence.completed
        return frames
