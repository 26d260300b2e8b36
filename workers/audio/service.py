"""The gRPC service of an audio worker.

Runs on the event loop; ffmpeg decodes recordings and encodes speech in processes of its own, and
the models run on the model thread.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

from shared.pb import audio_pb2 as pb
from shared.pb import audio_pb2_grpc
from workers.audio.audio_models import SPEECH, TRANSCRIPTION, AudioModels
from workers.audio.recognition.model import WhisperModel
from workers.audio.recognition.transcription import Transcription
from workers.audio.sound import recording
from workers.audio.speech.synthesis import synthesize
from workers.audio.speech.utterance import Utterance
from workers.error_boundary import RpcContext, error_boundary, stream_error_boundary
from workers.model_thread import ModelThread
from workers.unary import time_left_s


class AudioService(audio_pb2_grpc.AudioServicer):
    """Serves the models of one model thread."""

    def __init__(
        self, model_thread: ModelThread[AudioModels, Transcription | Utterance], max_duration_s: int
    ) -> None:
        self._model_thread = model_thread
        self._max_duration_s = max_duration_s

    @error_boundary
    async def Transcribe(self, request: pb.TranscribeRequest, context: RpcContext) -> pb.Transcript:
        with self._model_thread.admit(TRANSCRIPTION) as models:
            model = models.transcriber
            job = await self._receive(model, request, context)
            transcript: pb.Transcript = await self._model_thread.run(job)
        transcript.language = model.name_language(job.language)
        return transcript

    @stream_error_boundary
    async def StreamTranscript(
        self, request: pb.TranscribeRequest, context: RpcContext
    ) -> AsyncGenerator[pb.Transcript]:
        with self._model_thread.admit(TRANSCRIPTION) as models:
            model = models.transcriber
            job = await self._receive(model, request, context)
            async for segments in self._stream_segments(job):
                piece = job.make_transcript(segments)
                piece.language = model.name_language(job.language)
                yield piece

    @stream_error_boundary
    async def Speak(
        self, request: pb.SpeakRequest, context: RpcContext
    ) -> AsyncGenerator[pb.Sound]:
        with self._model_thread.admit(SPEECH) as models:
            left_s = functools.partial(time_left_s, context)
            sound = synthesize(request, self._model_thread, models.synthesizer, left_s)
            async with aclosing(sound):
                async for data in sound:
                    yield pb.Sound(data=data)

    async def _receive(
        self, model: WhisperModel, request: pb.TranscribeRequest, context: RpcContext
    ) -> Transcription:
        """Return the job for a request.

        Raises:
            ServiceError: its recording can't be decoded, or its language is unknown.
        """
        model.check(request)
        samples = await recording.decode(request.recording, self._max_duration_s)
        request.ClearField("recording")
        return Transcription(request, samples, time_left_s(context))

    async def _stream_segments(
        self, job: Transcription
    ) -> AsyncIterator[Sequence[pb.Transcript.Segment]]:
        """Run a job, and yield its segments as they are done.

        Raises:
            ServiceError: the job failed.
        """
        running = asyncio.ensure_future(self._model_thread.run(job))
        try:
            while (segments := await job.pieces.get()) is not None:
                yield segments
            await running
        finally:
            running.cancel()
            job.ended = True
