"""An audio worker without a model; prompt or text contain directions for it.

The words in brackets are those of embed_worker.py; a transcript is the recording itself, in two
segments, and speech is the text itself, in two pieces. In a stream, [late=CODE] fails after the
first of them. Runs inside a test's event loop.
"""

from __future__ import annotations

from shared.errors import ServiceError, abort
from shared.pb import audio_pb2 as pb
from shared.pb import audio_pb2_grpc, worker_pb2
from tests.fakes.embed_worker import FakeEmbedWorker


class FakeAudioWorker(FakeEmbedWorker, audio_pb2_grpc.AudioServicer):
    """The fake.

    Args:
        audio: what it can do; without, all.

    Attributes:
        times_left_s: of every text, until the deadline of its call; None without one.
    """

    def __init__(self, address: str, *, audio: worker_pb2.AudioCard | None = None, **card) -> None:
        everything = worker_pb2.AudioCard(
            transcribes=True, speaks=True, voices=["af_heart", "am_adam"]
        )
        super().__init__(address, "audio", audio=audio or everything, **card)
        self.times_left_s: list[float | None] = []

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
        await _fail_late(request.prompt, context)
        yield _transcript(second)

    async def Speak(self, request, context):  # noqa: N802
        self.seen.append(request)
        self.times_left_s.append(context.time_remaining())
        await self._obey(request.text, context)
        data = request.text.encode()
        yield pb.Sound(data=data[:5])
        await _fail_late(request.text, context)
        await self._obey(request.text.removeprefix("late "), context)
        yield pb.Sound(data=data[5:])


async def _fail_late(text, context):
    if text.startswith("[late="):
        await abort(context, ServiceError(text[6:-1], "as the script says"))


def _transcript(*segments):
    return pb.Transcript(segments=segments, language="english", duration_s=2)


def _segments(request):
    # The space between them ends the first.
    first, blank, rest = request.recording.decode().partition(" ")
    return [
        pb.Transcript.Segment(start_s=at, end_s=at + 1, text=text)
        for at, text in enumerate(filter(None, (f" {first}{blank}", rest)))
    ]
