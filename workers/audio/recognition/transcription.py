"""One call that waits to be transcribed, and its windows on their way through the model.

Owns what is left to do of a call and the order in which its windows are told. Made on the event
loop, then the lane's thread's own.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shared.errors import ServiceError
from shared.pb import audio_pb2 as pb
from workers.audio.recognition import window as windows
from workers.audio.recognition.window import RATE_HZ, Samples
from workers.job import Job

# Source: Whisper's transcribe.py.
_TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_WILD = 0.5
LEAST_LOGPROB = -1.0


@dataclass(eq=False)
class Window:
    """A stretch of a recording.

    Attributes:
        limit: where the part of the recording ends that this window stands for.
        context: tokens of what was said just before, where that is known.
        rung: how often it has been decoded in vain.
        features: what the encoder made of it, kept between attempts.
        best: the likeliest result of the attempts so far.
        segments: what it says; None until it is done.
    """

    owner: Transcription
    begin: int
    end: int
    limit: int
    context: tuple[int, ...] = ()
    rung: int = 0
    features: Any = None
    best: Any = None
    segments: Sequence[pb.Transcript.Segment] | None = None

    @property
    def temperature(self) -> float:
        return self.owner.temperatures[self.rung]

    @property
    def is_last_rung(self) -> bool:
        return self.rung + 1 == len(self.owner.temperatures)


class Transcription(Job[pb.Transcript]):
    """A call that waits.

    Attributes:
        language: code; empty until it has been found out.
        spectrum: of the whole recording; made by the model.
        said: tokens of what has been heard so far, as a prompt for what comes next.
        pieces: segments that are done, a window's at a time; None at the end.
    """

    def __init__(
        self, request: pb.TranscribeRequest, samples: Samples, timeout_s: float | None
    ) -> None:
        super().__init__(request.priority, request.arrival_ns, timeout_s)
        self.request = request
        self.samples = samples
        self.language = request.language
        self.temperatures = (request.temperature,) if request.temperature else _TEMPERATURES
        self.spectrum: Any = None
        self.said: list[int] = []
        self.pieces: asyncio.Queue[list[pb.Transcript.Segment] | None] = asyncio.Queue()
        self.waiting: deque[Window] = deque()
        self._windows: list[Window] = []
        self._told = 0

    @property
    def style(self) -> tuple[object, ...]:
        """What windows must have in common to be decoded together."""
        request = self.request
        return (request.translate, self.language, request.prompt, request.max_tokens)

    @property
    def left(self) -> int:
        """The samples that are still to be heard, unless windows are under way."""
        return len(self.samples) - (self.waiting[0].begin if self.waiting else 0)

    def open(self, *, in_parts: bool) -> None:
        """Make the first windows. On the lane's thread.

        Args:
            in_parts: cut the recording, so that its windows can go together; else each begins
                where the last one's words end.
        """
        whole = [(0, len(self.samples))]
        for begin, limit in windows.cut(self.samples) if in_parts else whole:
            self._add(len(self._windows), begin, limit)
        self._tell()

    def keep(self, item: Window, segments: Sequence[pb.Transcript.Segment], rest: int) -> None:
        """Take in what a window says, and call in what it leaves.

        Args:
            rest: from where the recording must be heard again, in samples.
        """
        item.segments, item.features, item.best = segments, None, None
        said = [token for segment in segments for token in segment.tokens]
        # What was found by chance, or is in doubt, misleads.
        if any(s.temperature > _WILD or s.avg_logprob < LEAST_LOGPROB for s in segments):
            self.said.clear()
            said.clear()
        self.said += said
        self._add(self._windows.index(item) + 1, rest, item.limit, tuple(said))
        self._tell()

    def _add(self, place: int, begin: int, limit: int, context: tuple[int, ...] = ()) -> None:
        """Add the window in which a part of the recording begins, if anything is to be heard."""
        while begin < limit:
            end = min(begin + windows.WINDOW_S * RATE_HZ, limit)
            if not windows.is_silent(self.samples[begin:end]):
                made = Window(self, begin, end, limit, context)
                self._windows.insert(place, made)
                if place + 1 == len(self._windows):
                    self.waiting.append(made)
                else:
                    self.waiting.appendleft(made)
                return
            begin = end

    def _tell(self) -> None:
        """Tell of the windows that are done and whose turn it is; finish after the last."""
        while self._told < len(self._windows):
            segments = self._windows[self._told].segments
            if segments is None:
                return
            self._put(list(segments))
            self._told += 1
        self._put(None)
        self.finish(self.transcript([s for each in self._windows for s in each.segments or ()]))

    def transcript(self, segments: Sequence[pb.Transcript.Segment]) -> pb.Transcript:
        """Return segments as a transcript of this recording."""
        return pb.Transcript(
            segments=segments,
            language=self.language,
            duration_s=len(self.samples) / RATE_HZ,
        )

    def fail(self, error: ServiceError) -> None:
        """End the call with an error."""
        super().fail(error)
        self._put(None)

    def _put(self, item: list[pb.Transcript.Segment] | None) -> None:
        self._loop.call_soon_threadsafe(self.pieces.put_nowait, item)


def order(jobs: Sequence[Transcription]) -> list[Transcription]:
    """Return recordings of one class with the least left to be heard first.

    A remark does not wait for a lecture to end, and of two lectures the one that was begun is not
    held up by the other. Waiting raises the class, so that a lecture has its turns, too.
    """
    now_s = time.monotonic()
    return sorted(jobs, key=lambda job: (job.rank(now_s)[0], job.left))
