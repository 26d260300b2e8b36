"""An audio worker without a model: what it is told to do stands in the prompt.

The words in brackets are those of embed_worker.py; a transcript is the recording itself, in two
segments. In a stream, [late=CODE] fails after the first of them. Runs inside a test's event loop.
"""

from __future__ import annotations

from shared.errors import ServiceError, abort
from shared.pb import audio_pb2 as pb
from shared.pb import audio_pb2_grpc
from tests.fakes.embed_worker import FakeEmbedWorker


class FakeAudioWorker(FakeEmbedWorker, audio_pb2_grpc.AudioServicer):
    """The fake."""

    def _offer(self, server) -> None:
        audio_pb2_grpc.add_AudioServicer_to_server(self, server)

    async def Transcribe(self, request, context):  # noqa: N802
        self.seen.append(request)
        await self._obey(request.prompt, context)
        return _transcript(*_segments(request))

    async def StreamTranscript(self, request, context):  # noqa: N802
        self.seen.append(request)
        await self._obey(request.prompt, context)
        first, second = _segments(request)
        yield _transcript(first)
        yield _transcript()
        if request.prompt.startswith("[late="):
            await abort(context, ServiceError(request.prompt[6:-1], "as the script says"))
        yield _transcript(second)


def _transcript(*segments):
    return pb.Transcript(segments=segments, language="english", duration_s=2)


def _segments(request):
    words = request.recording.decode().split(" ", 1)
    return [
        pb.Transcript.Segment(start_s=at, end_s=at + 1, text=f" {text}")
        for at, text in enumerate(words)
    ]
