"""espeak-ng's output is converted to Kokoro's phonemes."""

from __future__ import annotations

import asyncio
import contextlib

import psutil
import pytest

from tests.wait import until
from workers.audio.speech import phoneme


@pytest.mark.parametrize(
    ("voice", "text", "phonemes"),
    [
        ("af_heart", "Go home, the boy said.", "ɡˌO hˈOm, ðə bˈY sˈɛd."),
        ("af_heart", "A better button?", "ɐ bˈɛTəɹ bˈʌtᵊn?".replace("ɐ", "ə")),
        ("af_heart", "Join the judge in church", "ʤˈYn ðə ʤˈʌʤ ɪn ʧˈɜɹʧ"),
        ("bf_emma", "Nurse, go there.", "nˈɜːs, ɡˌQ ðˈɛː."),
        ("ef_dora", "¿Dónde está?", "dˈonde estˈa?"),
        ("af_heart", "It costs 3.50!", None),
        ("af_heart", "... — !", ""),
        ("af_heart", "", ""),
    ],
)
async def test_phonemes_are_those_of_the_voices_language(voice, text, phonemes):
    converted = await phoneme.convert(text, voice)
    if phonemes is None:
        # "three point five oh", and one mark at the end.
        assert "pˈYnt" in converted or "pYnt" in converted
        assert converted.count(".") == 0 and converted.endswith("!")
    else:
        assert converted == phonemes


async def test_a_text_can_pass_neither_phonemes_nor_options():
    assert "ɛlˈoʊ" not in await phoneme.convert("[[hEl'oU]]", "af_heart")
    assert await phoneme.convert("--version", "af_heart") == await phoneme.convert(
        "version", "af_heart"
    )


async def test_a_cancelled_call_leaves_no_process():
    task = asyncio.create_task(phoneme.convert("word " * 50_000, "af_heart"))
    children = psutil.Process().children
    await until(lambda: any(child.name() == "espeak-ng" for child in children()))
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert not [child for child in children() if child.name() == "espeak-ng"]
