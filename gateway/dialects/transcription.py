"""OpenAI's transcriptions and translations: form fields in, six forms of response out.

Owns the fields, their values, and every form of the response. The worker checks what depends on the
model, such as the language. Pure.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from gateway.dialects.envelope import envelope
from gateway.dialects.sampling import invalid
from shared.errors import ServiceError
from shared.pb import audio_pb2 as pb

Form = Mapping[str, Sequence[bytes]]
Segment = pb.Transcript.Segment

_FORMATS: Final = ("json", "text", "srt", "verbose_json", "vtt")
_STREAMED: Final = ("json", "text")
_GRANULARITIES: Final = ("segment", "word")
_LONGEST_FIELD: Final = 64 * 1024
_MOST_TOKENS: Final = 2**31 - 1
_JSON: Final = "application/json"
_TEXT: Final = "text/plain"
# Whisper counts no audio tokens.
_USAGE: Final = {
    "type": "tokens",
    "input_tokens": 0,
    "output_tokens": 0,
    "total_tokens": 0,
    "input_tokens_details": {"cached_tokens": 0},
}


@dataclass(frozen=True)
class ParsedTranscription:
    """A parsed form.

    Attributes:
        style: the response format.
        granularities: of verbose_json.
        stream: whether the response is streamed.
    """

    request: pb.TranscribeRequest
    model: str | None
    style: str
    granularities: frozenset[str]
    stream: bool


def parse(form: Form, *, translate: bool) -> ParsedTranscription:
    """Return the request of a form.

    Raises:
        ServiceError: `invalid_request`, naming the field.
    """
    recordings = form.get("file")
    if not recordings:
        word = "file is required" if translate else "No input file found for transcription"
        raise ServiceError("invalid_request", word, "file")
    style = _text(form, "response_format") or "json"
    if style not in _FORMATS:
        raise invalid("response_format", f"must be one of {', '.join(_FORMATS)}")
    # As in the reference, no other value counts.
    stream = _text(form, "stream") == "true" and not translate
    if stream and style not in _STREAMED:
        raise invalid("response_format", f"must be one of {', '.join(_STREAMED)} for a stream")
    if _values(form, "include"):
        raise invalid("include", "is not supported: log probabilities are not available")
    granularities = _read_granularities(form, style)
    request = pb.TranscribeRequest(
        recording=recordings[-1],
        translate=translate,
        language=_text(form, "language"),
        prompt=_text(form, "prompt"),
        temperature=_read_temperature(_text(form, "temperature")),
        max_tokens=_read_max_tokens(_text(form, "max_tokens")),
        words="word" in granularities,
        arrival_ns=time.time_ns(),
    )
    return ParsedTranscription(request, read_model(form), style, granularities, stream)


def read_model(form: Form) -> str | None:
    return _text(form, "model") or None


def _values(form: Form, name: str) -> list[str]:
    """Return all values of a field, whose name some clients send with brackets."""
    try:
        return [
            value.decode().strip() for key in (name, f"{name}[]") for value in form.get(key, ())
        ]
    except UnicodeDecodeError:
        raise invalid(name, "must be UTF-8 text") from None


def _text(form: Form, name: str) -> str:
    """Return the value of a field; one that is given twice counts as absent."""
    if sum(map(len, form.get(name, ()))) > _LONGEST_FIELD:
        raise invalid(name, f"must have at most {_LONGEST_FIELD} bytes")
    values = _values(form, name)
    return values[0] if len(values) == 1 else ""


def _read_granularities(form: Form, style: str) -> frozenset[str]:
    given = _values(form, "timestamp_granularities")
    if any(value not in _GRANULARITIES for value in given):
        raise invalid("timestamp_granularities", f"must be of {', '.join(_GRANULARITIES)}")
    if given and style != "verbose_json":
        raise invalid("timestamp_granularities", "needs response_format verbose_json")
    return frozenset(given or ("segment",))


def _read_temperature(text: str) -> float:
    try:
        value = float(text or 0)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise invalid("temperature", "must be a number from 0 to 1")
    return value


def _read_max_tokens(text: str) -> int:
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:20]) <= _MOST_TOKENS:
        raise invalid("max_tokens", "must be a positive whole number")
    return int(text)


def render(asked: ParsedTranscription, transcript: pb.Transcript) -> tuple[bytes, str]:
    """Return the response body and its content type."""
    if asked.style == "verbose_json":
        return orjson.dumps(_verbose(asked, transcript)), _JSON
    if asked.style == "srt":
        return _subtitles(transcript.segments, ",").encode(), _TEXT
    if asked.style == "vtt":
        return f"WEBVTT\n\n{_subtitles(transcript.segments, '.')}".encode(), "text/vtt"
    text = write(transcript.segments)
    if asked.style == "text":
        return f"{text}\n".encode(), _TEXT
    return orjson.dumps({"text": text} if asked.request.translate else _done(text)), _JSON


def write(segments: Iterable[Segment]) -> str:
    return "".join(segment.text for segment in segments).strip()


def _done(text: str) -> dict[str, Any]:
    return {"type": "transcript.text.done", "text": text, "usage": _USAGE}


def _verbose(asked: ParsedTranscription, transcript: pb.Transcript) -> dict[str, Any]:
    table: dict[str, Any] = {
        "task": "translate" if asked.request.translate else "transcribe",
        "language": transcript.language,
        "duration": round(transcript.duration_s, 3),
        "text": write(transcript.segments),
        "usage": {"type": "duration", "seconds": math.ceil(transcript.duration_s)},
    }
    if "segment" in asked.granularities:
        table["segments"] = [_segment(i, s) for i, s in enumerate(transcript.segments)]
    if "word" in asked.granularities:
        table["words"] = [
            {"word": word.word, "start": round(word.start_s, 2), "end": round(word.end_s, 2)}
            for segment in transcript.segments
            for word in segment.words
        ]
    return table


def _segment(index: int, segment: Segment) -> dict[str, Any]:
    return {
        "id": index,
        "seek": segment.seek,
        "start": round(segment.start_s, 2),
        "end": round(segment.end_s, 2),
        "text": segment.text,
        "tokens": list(segment.tokens),
        "temperature": round(segment.temperature, 3),
        "avg_logprob": segment.avg_logprob,
        "compression_ratio": segment.compression_ratio,
        "no_speech_prob": segment.no_speech_prob,
    }


def _subtitles(segments: Sequence[Segment], point: str) -> str:
    """Return segments as subtitles: SubRip numbers them, WebVTT does not."""
    lines = []
    for number, segment in enumerate(segments, 1):
        times = (_clock(segment.start_s, point), _clock(segment.end_s, point))
        head = f"{number}\n" if point == "," else ""
        # In both formats this arrow is reserved for the line with the times.
        text = segment.text.strip().replace("-->", "->")
        lines.append(f"{head}{times[0]} --> {times[1]}\n{text}\n\n")
    return "".join(lines)


def _clock(seconds: float, point: str) -> str:
    minutes, rest_ms = divmod(round(seconds * 1000), 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{rest_ms // 1000:02}{point}{rest_ms % 1000:03}"


def render_delta(text: str) -> bytes:
    """Return an event with a piece of text."""
    return _event({"type": "transcript.text.delta", "delta": text})


def render_done(text: str) -> bytes:
    """Return the last events of a stream."""
    return _event(_done(text)) + b"data: [DONE]\n\n"


def render_failure(failure: ServiceError) -> bytes:
    """Return the last event of a stream that failed."""
    return _event({"error": envelope(failure)})


def _event(table: Any) -> bytes:
    return b"data: " + orjson.dumps(table) + b"\n\n"
