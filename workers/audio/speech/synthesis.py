"""One call for speech: from a text over words, pieces, phonemes and steps of the model to one file.

Phonemes of the next piece are made while the last is spoken; nothing more is made before the
client has taken what there is, so that a slow client costs little. Runs on the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, TypeVar

from shared.errors import ServiceError
from shared.pb import audio_pb2 as pb
from workers.audio.sound import encoding
from workers.audio.sound.samples import to_pcm
from workers.audio.speech import phoneme
from workers.audio.speech.kokoro import Kokoro
from workers.audio.speech.normaliser.normaliser import load_normaliser
from workers.audio.speech.splitting import split_text
from workers.audio.speech.utterance import Utterance
from workers.model_thread import ModelThread

T = TypeVar("T")


async def synthesize(
    request: pb.SpeakRequest,
    model_thread: ModelThread[Any, Any],
    synthesizer: Kokoro,
    time_left_s: Callable[[], float | None],
) -> AsyncGenerator[bytes]:
    """Yield the audio file of a text while it is made.

    Args:
        time_left_s: returns how long to wait for a step; None for no limit.

    Raises:
        ServiceError: the text has no words, its format can't be made here, or a step failed,
            possibly after some of the file has been yielded.
    """
    encoding.check(request.format)
    pcm = _synthesize_pieces(request, model_thread, synthesizer, time_left_s)
    encoded = encoding.encode(pcm, request.format, synthesizer.rate_hz, whole=request.whole)
    async with aclosing(encoded):
        async for data in encoded:
            yield data


async def _synthesize_pieces(
    request: pb.SpeakRequest,
    model_thread: ModelThread[Any, Any],
    synthesizer: Kokoro,
    time_left_s: Callable[[], float | None],
) -> AsyncGenerator[bytes]:
    """Yield 16-bit PCM, one step's at a time."""
    voice = synthesizer.find_voice(request.voice)
    has_spoken = False
    async with aclosing(_read_ahead(_make_phonemes(request, voice, synthesizer))) as parts:
        async for part in parts:
            job = Utterance(request, part, voice, time_left_s())
            yield to_pcm(await model_thread.run(job))
            has_spoken = True
    if not has_spoken:
        raise ServiceError("invalid_request", "input: there is nothing to speak", "input")


async def _make_phonemes(
    request: pb.SpeakRequest, voice: str, synthesizer: Kokoro
) -> AsyncGenerator[str]:
    async for text in _write_out(request.text, voice):
        for piece in split_text(text):
            for part in synthesizer.split(await phoneme.convert(piece, voice), request.speed):
                yield part


async def _write_out(text: str, voice: str) -> AsyncGenerator[str]:
    """Yield a text as words, a few sentences at a time.

    Raises:
        ServiceError: it is in a script that can't be spoken, before anything is yielded.
    """
    normaliser = load_normaliser(phoneme.LANGUAGES[voice[0]])
    # In a thread: a long text takes a second.
    for block in await asyncio.to_thread(normaliser.prepare, text):
        yield await asyncio.to_thread(normaliser.write_out, block)


async def _read_ahead(items: AsyncGenerator[T]) -> AsyncGenerator[T]:
    """Yield items, making the next while one is used."""
    async with aclosing(items):
        next_item = asyncio.ensure_future(anext(items, None))
        try:
            while (item := await next_item) is not None:
                next_item = asyncio.ensure_future(anext(items, None))
                yield item
        finally:
            next_item.cancel()
            await asyncio.gather(next_item, return_exceptions=True)
