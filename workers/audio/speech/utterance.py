"""One piece of text that waits to be spoken: one step of the model.

Made on the event loop, then used by the model thread alone.
"""

from __future__ import annotations

import time

from shared.errors import ServiceError
from shared.pb import audio_pb2 as pb
from workers.audio.sound.samples import Samples, is_silent
from workers.audio.speech.kokoro import Kokoro
from workers.job import Job


class Utterance(Job[Samples]):
    """One piece.

    Args:
        phonemes: one of the parts that `Kokoro.split` returns.
        voice: one that the model has.
    """

    def __init__(
        self, request: pb.SpeakRequest, phonemes: str, voice: str, timeout_s: float | None
    ) -> None:
        # Arrival of the piece, not of the text, so that several texts take turns.
        super().__init__(request.priority, time.time_ns(), timeout_s)
        self._phonemes = phonemes
        self._voice = voice
        self._speed = request.speed

    def step(self, synthesizer: Kokoro) -> None:
        """Synthesize the piece and end the job. On the model thread."""
        self.serve()
        try:
            samples = synthesizer.synthesize(self._phonemes, self._voice, self._speed)
        except ServiceError as failure:
            self.fail(failure)
            return
        if is_silent(samples):
            self.fail(ServiceError("internal", "The model returned silence."))
        else:
            self.finish(samples)
