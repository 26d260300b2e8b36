"""One call that waits to be transcribed, and the windows of its recording.

Owns what is left to decode of a call, and that its windows are reported in order. Made on the
event loop, then used by the model thread alone, except `pieces`.
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
from workers.audio.recognition.fallback import (
    HIGHEST_CONTEXT_TEMPERATURE,
    LOWEST_LOGPROB,
    TEMPERATURES,
)
from workers.audio.recognition.window import WINDOW, cut_windows, has_no_sound
from workers.audio.sound.samples import RATE_HZ, Samples
from workers.job import Job


@dataclass(eq=False)
class Window:
    """A part of a recording that is decoded at once; offsets in samples.

    Attributes:
        limit: end of the part of the recording that this window belongs to.
        context: tokens of the preceding text, where that is known.
        fallback: index into the temperatures; the number of rejected results.
        features: the encoder's output, kept between attempts.
        best: the best result of the attempts so far.
        segments: None until the window is done.
    """

    owner: Transcription
    begin: int
    end: int
    limit: int
    context: tuple[int, ...] = ()
    fallback: int = 0
    features: Any = None
    best: Any = None
    segments: Sequence[pb.Transcript.Segment] | None = None

    @property
    def temperature(self) -> float:
        return self.owner.temperatures[self.fallback]

    @property
    def is_last_fallback(self) -> bool:
        return self.fallback + 1 == len(self.owner.temperatures)


class Transcription(Job[pb.Transcript]):
    """One call.

    Attributes:
        language: code; empty until it has been detected.
        spectrum: of the whole recording; set by the model.
        text_tokens: decoded so far, as a prompt for the next window.
        pieces: finished segments, one window's at a time; None at the end.
        waiting: windows to be decoded.
    """

    def __init__(
        self, request: pb.TranscribeRequest, samples: Samples, timeout_s: float | None
    ) -> None:
        super().__init__(request.priority, request.arrival_ns, timeout_s)
        self.request = request
        self.samples = samples
        self.language = request.language
        self.temperatures = (request.temperature,) if request.temperature else TEMPERATURES
        self.spectrum: Any = None
        self.text_tokens: list[int] = []
        self.pieces: asyncio.Queue[list[pb.Transcript.Segment] | None] = asyncio.Queue()
        self.waiting: deque[Window] = deque()
        self._windows: list[Window] = []
        self._reported = 0

    @property
    def style(self) -> tuple[object, ...]:
        """The options that windows must share to be decoded together."""
        request = self.request
        return (request.translate, self.language, request.prompt, request.max_tokens)

    @property
    def left(self) -> int:
        """The samples from the first waiting window on, or all if none waits."""
        return len(self.samples) - (self.waiting[0].begin if self.waiting else 0)

    def open(self, *, in_parts: bool) -> None:
        """Make the first windows. On the model thread.

        Args:
            in_parts: cut the recording, so that windows can be decoded together; else each
                begins where the text of the last one ends.
        """
        whole = [(0, len(self.samples))]
        for begin, limit in cut_windows(self.samples) if in_parts else whole:
            self._add(len(self._windows), begin, limit)
        self._report()

    def keep(self, item: Window, segments: Sequence[pb.Transcript.Segment], rest: int) -> None:
        """Store a window's segments, and add a window for its rest.

        Args:
            rest: from where the recording must be decoded again.
        """
        item.segments, item.features, item.best = segments, None, None
        tokens = [token for segment in segments for token in segment.tokens]
        # A random or doubtful text would mislead the next window.
        if any(
            s.temperature > HIGHEST_CONTEXT_TEMPERATURE or s.avg_logprob < LOWEST_LOGPROB
            for s in segments
        ):
            self.text_tokens.clear()
            tokens.clear()
        self.text_tokens += tokens
        self._add(self._windows.index(item) + 1, rest, item.limit, tuple(tokens))
        self._report()

    def _add(self, index: int, begin: int, limit: int, context: tuple[int, ...] = ()) -> None:
        """Add the first window of a part of the recording that is not silent."""
        while begin < limit:
            end = min(begin + WINDOW, limit)
            if not has_no_sound(self.samples[begin:end]):
                window = Window(self, begin, end, limit, context)
                self._windows.insert(index, window)
                if index + 1 == len(self._windows):
                    self.waiting.append(window)
                else:
                    self.waiting.appendleft(window)
                return
            begin = end

    def _report(self) -> None:
        """Report the next windows if they are done; finish after the last."""
        while self._reported < len(self._windows):
            done = self._windows[self._reported].segments
            if done is None:
                return
            self._put(list(done))
            self._reported += 1
        self._put(None)
        segments = [segment for window in self._windows for segment in window.segments or ()]
        self.finish(self.make_transcript(segments))

    def make_transcript(self, segments: Sequence[pb.Transcript.Segment]) -> pb.Transcript:
        return pb.Transcript(
            segments=segments,
            language=self.language,
            duration_s=len(self.samples) / RATE_HZ,
        )

    def fail(self, error: ServiceError) -> None:
        super().fail(error)
        self._put(None)

    def _put(self, item: list[pb.Transcript.Segment] | None) -> None:
        self._loop.call_soon_threadsafe(self.pieces.put_nowait, item)


def order(jobs: Sequence[Transcription]) -> list[Transcription]:
    """Return jobs by class, and within one class the shortest rest first.

    A short recording does not wait for a long one to end, and a long one that was begun is not
    delayed by another. Waiting raises the class, so that long ones are served, too.
    """
    now_s = time.monotonic()
    return sorted(jobs, key=lambda job: (job.rank(now_s)[0], job.left))
