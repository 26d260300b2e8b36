"""Which of several recordings is decoded next, and in which language."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from mlx_audio.stt.models.whisper.tokenizer import LANGUAGES

from shared.errors import ServiceError
from shared.pb import audio_pb2 as pb
from shared.pb import common_pb2 as common
from workers.audio.recognition.language import _THREE_LETTERS, find_code
from workers.audio.recognition.model import WhisperModel
from workers.audio.recognition.transcription import Transcription, order
from workers.audio.sound.samples import RATE_HZ


def recording(seconds, **fields):
    noise = np.random.default_rng(0).normal(0, 0.1, seconds * RATE_HZ).astype(np.float32)
    return Transcription(pb.TranscribeRequest(**fields), noise, None)


async def test_a_short_recording_is_served_before_a_long_one_that_arrived_first():
    long, short = recording(90), recording(2)
    assert order([long, short]) == [short, long]


async def test_a_recording_that_was_begun_is_served_before_one_as_long():
    begun, fresh = recording(90), recording(90)
    assert order([begun, fresh]) == [begun, fresh]
    begun.open(in_parts=False)
    begun.keep(begun.waiting.popleft(), [], 30 * RATE_HZ)
    assert order([fresh, begun]) == [begun, fresh]


async def test_a_higher_class_is_served_before_a_shorter_recording():
    urgent, short = recording(90, priority=common.PRIORITY_HIGH), recording(2)
    assert order([short, urgent]) == [urgent, short]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        *(("", ""), ("auto", ""), ("de", "de"), (" German ", "de"), ("pt-BR", "pt"), ("zz", None)),
        *(
            ("en_US", "en"),
            ("eng", "en"),
            ("English", "en"),
            ("zho-Hans-CN", "zh"),
            ("nb_NO", "no"),
        ),
        *(("fre", "fr"), ("fra", "fr"), ("haw", "haw"), ("yue_HK", "yue"), ("Castilian", "es")),
    ],
)
def test_a_language_is_a_code_a_name_or_detected(given, code):
    dims = SimpleNamespace(n_text_ctx=448)
    network = SimpleNamespace(dims=dims, is_multilingual=True, num_languages=100)
    model, request = WhisperModel(network, "whisper-base", 1), pb.TranscribeRequest(language=given)
    if code is None:
        with pytest.raises(ServiceError, match="'zz' is not known"):
            model.check(request)
    else:
        model.check(request)
        assert request.language == code


def test_every_language_of_whisper_has_a_code_of_three_letters():
    found = {find_code(word) for word in _THREE_LETTERS.split() if len(word) == 3}
    assert found == set(LANGUAGES)
