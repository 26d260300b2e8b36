"""Parsing of transcription forms, and every form of response."""

from __future__ import annotations

import json

import pytest

from gateway.dialects import transcription
from shared.errors import ServiceError
from shared.pb import audio_pb2 as pb

TRANSCRIPT = pb.Transcript(
    language="english",
    duration_s=3725.5004,
    segments=[
        pb.Transcript.Segment(
            start_s=0,
            end_s=1.5,
            text=" Hello --> there.",
            tokens=[1, 2],
            avg_logprob=-0.25,
            compression_ratio=0.75,
            no_speech_prob=0.125,
            words=[
                pb.Transcript.Word(word="Hello", start_s=0, end_s=0.5),
                pb.Transcript.Word(word="there.", start_s=0.5, end_s=1.5),
            ],
        ),
        pb.Transcript.Segment(start_s=3723.0046, end_s=3725.5, text=" Bye.", seek=372000),
    ],
)


def parse(*, translate=False, **fields):
    form = {"file": [b"sound"]}
    for name, value in fields.items():
        values = value if isinstance(value, list) else [value]
        form[name] = [v if isinstance(v, bytes) else v.encode() for v in values]
    return transcription.parse(form, translate=translate)


def refuse(**fields):
    with pytest.raises(ServiceError) as caught:
        parse(**fields)
    assert caught.value.code == "invalid_request"
    return caught.value


def render(translate=False, **fields):
    body, content_type = transcription.render(parse(translate=translate, **fields), TRANSCRIPT)
    return body.decode(), content_type


def test_a_plain_form():
    asked = parse(model="whisper-1")
    assert asked.model == "whisper-1"
    assert (asked.style, asked.stream) == ("json", False)
    request = asked.request
    assert (request.recording, request.language, request.temperature) == (b"sound", "", 0)
    assert not (request.translate or request.words or request.max_tokens)
    assert request.arrival_ns


def test_every_field_reaches_the_worker():
    asked = parse(
        language="de",
        prompt="Grüße",
        temperature="0.5",
        max_tokens="40",
        response_format="verbose_json",
        **{"timestamp_granularities[]": ["word", "segment"]},
    )
    request = asked.request
    assert (request.language, request.prompt, request.temperature) == ("de", "Grüße", 0.5)
    assert (request.max_tokens, request.words) == (40, True)
    assert asked.granularities == {"word", "segment"}


def test_the_last_of_several_files_counts_and_repeated_fields_do_not():
    assert parse(file=[b"one", b"two"]).request.recording == b"two"
    assert parse(language=["de", "en"]).request.language == ""
    assert parse(response_format=["text", "srt"]).style == "json"


@pytest.mark.parametrize(("value", "streams"), [("true", True), ("True", False), ("1", False)])
def test_only_true_requests_a_stream(value, streams):
    assert parse(stream=value).stream == streams
    assert not parse(stream=value, translate=True).stream


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"response_format": "xml"}, "response_format"),
        ({"response_format": "srt", "stream": "true"}, "response_format"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": "nan"}, "temperature"),
        ({"temperature": "-0.1"}, "temperature"),
        ({"temperature": "1.01"}, "temperature"),
        ({"max_tokens": "0"}, "max_tokens"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"max_tokens": "9" * 6000}, "max_tokens"),
        ({"timestamp_granularities[]": "word"}, "timestamp_granularities"),
        (
            {"timestamp_granularities[]": "line", "response_format": "verbose_json"},
            "timestamp_granularities",
        ),
        ({"include[]": "logprobs"}, "include"),
        ({"prompt": b"\xff"}, "prompt"),
        ({"prompt": "x" * 70_000}, "prompt"),
        ({"file": []}, "file"),
    ],
)
def test_unsupported_fields_are_refused_by_name(fields, field):
    assert refuse(**fields).param == field


def test_a_missing_file_has_the_message_of_the_reference():
    assert refuse(file=[]).message == "No input file found for transcription"


def test_json():
    body, content_type = render()
    assert content_type == "application/json"
    assert json.loads(body) == {
        "type": "transcript.text.done",
        "text": "Hello --> there. Bye.",
        "usage": {
            "type": "tokens",
            "input_tokens": 0,
            "output_tokens": 0,
            "total_tokens": 0,
            "input_tokens_details": {"cached_tokens": 0},
        },
    }
    assert json.loads(render(translate=True)[0]) == {"text": "Hello --> there. Bye."}


def test_text():
    assert render(response_format="text") == ("Hello --> there. Bye.\n", "text/plain")


def test_subtitles():
    assert render(response_format="srt") == (
        (
            "1\n00:00:00,000 --> 00:00:01,500\nHello -> there.\n\n"
            "2\n01:02:03,005 --> 01:02:05,500\nBye.\n\n"
        ),
        "text/plain",
    )
    assert render(response_format="vtt") == (
        (
            "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nHello -> there.\n\n"
            "01:02:03.005 --> 01:02:05.500\nBye.\n\n"
        ),
        "text/vtt",
    )


def test_verbose_json():
    body = json.loads(render(response_format="verbose_json")[0])
    segments = body.pop("segments")
    assert body == {
        "task": "transcribe",
        "language": "english",
        "duration": 3725.5,
        "text": "Hello --> there. Bye.",
        "usage": {"type": "duration", "seconds": 3726},
    }
    assert segments[0] == {
        "id": 0,
        "seek": 0,
        "start": 0,
        "end": 1.5,
        "text": " Hello --> there.",
        "tokens": [1, 2],
        "temperature": 0,
        "avg_logprob": -0.25,
        "compression_ratio": 0.75,
        "no_speech_prob": 0.125,
    }
    words = {"timestamp_granularities": "word"}
    body = json.loads(render(response_format="verbose_json", **words)[0])
    assert "segments" not in body
    assert body["words"][1] == {"word": "there.", "start": 0.5, "end": 1.5}
