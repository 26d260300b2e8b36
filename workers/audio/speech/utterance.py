"""One piece of text that waits to be spoken: a step of the lane.

Made on the event loop, then the lane's thread's own.
"""

from __future__ import annotations

import time

import numpy as np

from shared.errors import ServiceError
from shared.pb import audio_pb2 as pb
from workers.audio.sound.encoding import Samples
from workers.audio.speech.kokoro import Kokoro
from workers.job import Job

# Root mean square below which nothing was said: -60 dB.
_SILENCE = 1e-3


class Utterance(Job[Samples]):
    """A piece that waits.

    Args:
        phonemes: what is to be said.
        voice: one that the model has.
    """

    def __init__(
        self, request: pb.SpeakRequest, phonemes: str, voice: str, timeout_s: float | None
    ) -> None:
        # Not its text's arrival: then no third text would have a turn until one of two has ended.
        super().__init__(request.priority, time.time_ns(), timeout_s)
        self._phonemes = phonemes
        self._voice = voice
        self._speed = request.speed

    def step(self, speaker: Kokoro) -> None:
        """Speak. On the lane's thread."""
        self.serve()
        try:
            samples = speaker.speak(self._phonemes, self._voice, self._speed)
        except ServiceError as failure:
            self.fail(failure)
            return
        if _is_silent(samples):
            self.fail(ServiceError("internal", "The model gave silence for words."))
        else:
            self.finish(samples)


def _is_silent(samples: Samples) -> bool:
    if not len(samples):
        return True
    return float(np.sqrt(np.square(np.nan_to_num(samples, posinf=1)).mean())) < _SILENCE
