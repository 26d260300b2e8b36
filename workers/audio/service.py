"""The gRPC face of an audio worker.

Owns the RPCs. Runs on the event loop: what decodes a recording and what encodes speech are other
processes, and what listens and speaks is the lane.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

from shared.pb import audio_pb2 as pb
from shared.pb import audio_pb2_grpc
from workers.audio.audio_models import LISTENING, SPEAKING, AudioModels
from workers.audio.recognition.model import WhisperModel
from workers.audio.recognition.transcription import Transcription
from workers.audio.sound import recording
from workers.audio.speech.synthesis import speak
from workers.audio.speech.utterance import Utterance
from workers.error_boundary import RpcContext, error_boundary, stream_error_boundary
from workers.model_thread import ModelThread
from workers.unary import time_left_s


class AudioService(audio_pb2_grpc.AudioServicer):
    """Serves the models of one lane.

    Args:
        longest_s: seconds that a recording may have.
    """

    def __init__(
        self, model_thread: ModelThread[AudioModels, Transcription | Utterance], longest_s: int
    ) -> None:
        self._model_thread = model_thread
        self._longest_s = longest_s

    @error_boundary
    async def Transcribe(self, request: pb.TranscribeRequest, context: RpcContext) -> pb.Transcript:
        with self._model_thread.admit(LISTENING) as models:
            model = models.listener
            job = await self._receive(model, request, context)
            transcript: pb.Transcript = await self._model_thread.run(job)
        transcript.language = model.name_language(job.language)
        return transcript

    @stream_error_boundary
    async def StreamTranscript(
        self, request: pb.TranscribeRequest, context: RpcContext
    ) -> AsyncIterator[pb.Transcript]:
        with self._model_thread.admit(LISTENING) as models:
            model = models.listener
            job = await self._receive(model, request, context)
            async for segments in self._listen(job):
                piece = job.transcript(segments)
                piece.language = model.name_language(job.language)
                yield piece

    @stream_error_boundary
    async def Speak(self, request: pb.SpeakRequest, context: RpcContext) -> AsyncIterator[pb.Sound]:
        with self._model_thread.admit(SPEAKING) as models:
            left = functools.partial(time_left_s, context)
            async with aclosing(speak(request, self._model_thread, models.speaker, left)) as sound:
                async for data in sound:
                    yield pb.Sound(data=data)

    async def _receive(
        self, model: WhisperModel, request: pb.TranscribeRequest, context: RpcContext
    ) -> Transcription:
        """Return the job that a request is.

        Raises:
            ServiceError: there is no sound to be had from it, or no such language.
        """
        model.check(request)
        samples = await recording.decode(request.recording, self._longest_s)
        request.ClearField("recording")
        return Transcription(request, samples, time_left_s(context))

    async def _listen(self, job: Transcription) -> AsyncIterator[Sequence[pb.Transcript.Segment]]:
        """Yield the segments of a job as they are done.

        Raises:
            ServiceError: it failed.
        """
        running = asyncio.ensure_future(self._model_thread.run(job))
        try:
            while (segments := await job.pieces.get()) is not None:
                yield segments
            await running
        finally:
            running.cancel()
            job.ended = True
