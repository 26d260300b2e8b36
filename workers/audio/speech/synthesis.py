"""From a text to the sound of it: pieces, phonemes, steps of the lane, one file.

Owns the order of a call that speaks, and that the next piece is written in phonemes while the last
is spoken. Nothing is made before somebody takes what was made, so that a client that reads slowly
costs little. Runs on the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, TypeVar

from shared.errors import ServiceError
from shared.pb import audio_pb2 as pb
from workers.audio.sound import encoding
from workers.audio.speech import phoneme, sentence
from workers.audio.speech.kokoro import Kokoro
from workers.audio.speech.utterance import Utterance
from workers.model_thread import ModelThread

T = TypeVar("T")


async def speak(
    request: pb.SpeakRequest,
    model_thread: ModelThread[Any, Any],
    speaker: Kokoro,
    time_left_s: Callable[[], float | None],
) -> AsyncGenerator[bytes]:
    """Yield a text, spoken, as a file that grows.

    Args:
        time_left_s: tells how long a step may be waited for.

    Raises:
        ServiceError: there is nothing to say in it, or it failed; after some of it has been
            yielded, too.
    """
    if request.format not in encoding.FORMATS:
        known = ", ".join(encoding.FORMATS)
        raise ServiceError(
            "invalid_request", f"response_format: must be one of {known}", "response_format"
        )
    said = _say(request, model_thread, speaker, time_left_s)
    encoded = encoding.encode(said, request.format, speaker.rate_hz, whole=request.whole)
    async with aclosing(encoded):
        async for data in encoded:
            yield data


async def _say(
    request: pb.SpeakRequest,
    model_thread: ModelThread[Any, Any],
    speaker: Kokoro,
    time_left_s: Callable[[], float | None],
) -> AsyncGenerator[bytes]:
    """Yield 16-bit samples, as much as a step gives."""
    voice = speaker.choose(request.voice)
    has_spoken = False
    async with aclosing(_read_ahead(_pronounce(request.text, voice, speaker))) as parts:
        async for part in parts:
            job = Utterance(request, part, voice, time_left_s())
            yield encoding.pack(await model_thread.run(job))
            has_spoken = True
    if not has_spoken:
        raise ServiceError("invalid_request", "input: there is nothing to say in it", "input")


async def _pronounce(text: str, voice: str, speaker: Kokoro) -> AsyncGenerator[str]:
    for piece in sentence.split(text):
        for part in speaker.divide(await phoneme.write(piece, voice)):
            yield part


async def _read_ahead(items: AsyncGenerator[T]) -> AsyncGenerator[T]:
    """Yield items, the next of which is under way already."""
    async with aclosing(items):
        coming = asyncio.ensure_future(anext(items, None))
        try:
            while (item := await coming) is not None:
                coming = asyncio.ensure_future(anext(items, None))
                yield item
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
