"""OpenAI's speech API: a JSON body in, audio in six formats out.

Owns the fields, their values, and the headers and events of the response. The worker checks the
voice. Pure.
"""

from __future__ import annotations

import binascii
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import orjson

from gateway.dialects.envelope import envelope
from gateway.dialects.json_body import decode
from gateway.dialects.sampling import invalid
from shared.errors import ServiceError
from shared.pb import audio_pb2 as pb

# Response format → content type. Opus is sent in Ogg (RFC 7845, section 9).
CONTENT_TYPES: Final[Mapping[str, str]] = {
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "flac": "audio/flac",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "pcm": "audio/pcm",
}
_STREAM_FORMATS: Final = ("audio", "sse")
_LONGEST_CHARS: Final = 100_000
# Up to this length, OpenAI's limit, a WAV file is sent when its length is known.
_LONGEST_WHOLE_CHARS: Final = 4096
# Source: OpenAI's API reference.
_SLOWEST, _FASTEST = 0.25, 4.0


class _Voice(msgspec.Struct):
    """A voice as an object, which OpenAI's clients may send."""

    id: str


class SpeechBody(msgspec.Struct):
    model: str
    input: str
    voice: str | _Voice | None = None
    response_format: str | None = None
    speed: float | None = None
    stream_format: str | None = None
    # Accepted without effect: the style of a voice is fixed.
    instructions: str | None = None


_BODY: Final = msgspec.json.Decoder(SpeechBody)


@dataclass(frozen=True)
class ParsedSpeech:
    """A parsed body.

    Attributes:
        events: whether the audio is sent as server-sent events.
    """

    request: pb.SpeakRequest
    events: bool

    @property
    def headers(self) -> Mapping[str, str]:
        name = self.request.format
        return {
            "Content-Type": CONTENT_TYPES[name],
            "Content-Disposition": f"attachment; filename=speech.{name}",
        }


def parse(data: bytes) -> SpeechBody:
    """Return the fields of a body.

    Raises:
        ServiceError: a field is missing or of the wrong type.
    """
    return decode(_BODY, data)


def build(body: SpeechBody, default_format: str = "wav") -> ParsedSpeech:
    """Return the request of a body.

    Args:
        default_format: of a body that names none.

    Raises:
        ServiceError: `invalid_request`, naming the field.
    """
    if not body.input.strip():
        raise invalid("input", "must not be empty")
    if len(body.input) > _LONGEST_CHARS:
        raise invalid("input", f"must have at most {_LONGEST_CHARS} characters")
    form = body.response_format or default_format
    if form not in CONTENT_TYPES:
        raise invalid("response_format", f"must be one of {', '.join(CONTENT_TYPES)}")
    if body.stream_format not in (None, *_STREAM_FORMATS):
        raise invalid("stream_format", f"must be one of {', '.join(_STREAM_FORMATS)}")
    is_short = len(body.input) <= _LONGEST_WHOLE_CHARS
    request = pb.SpeakRequest(
        text=body.input,
        voice=body.voice.id if isinstance(body.voice, _Voice) else body.voice or "",
        speed=_read_speed(body.speed),
        format=form,
        whole=form == "wav" and body.stream_format is None and is_short,
        arrival_ns=time.time_ns(),
    )
    return ParsedSpeech(request, body.stream_format == "sse")


def _read_speed(speed: float | None) -> float:
    """Return the speed; as in the reference, an invalid one counts as 1."""
    if speed is None or not math.isfinite(speed) or speed <= 0:
        return 1.0
    if not _SLOWEST <= speed <= _FASTEST:
        raise invalid("speed", f"must be from {_SLOWEST} to {_FASTEST}")
    return speed


def render_voices(names: Iterable[str]) -> Mapping[str, Any]:
    """Return the list of voices in the form that chat clients read."""
    return {"voices": [{"id": name, "name": name} for name in names]}


def render_delta(data: bytes) -> bytes:
    """Return an event with a piece of audio."""
    audio = binascii.b2a_base64(data, newline=False).decode()
    return _event({"type": "speech.audio.delta", "audio": audio})


def render_done() -> bytes:
    """Return the last event of a stream; Kokoro counts no tokens."""
    usage = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    return _event({"type": "speech.audio.done", "usage": usage})


def render_failure(failure: ServiceError) -> bytes:
    """Return the last event of a stream that failed."""
    return _event({"error": envelope(failure)})


def _event(table: object) -> bytes:
    return b"data: " + orjson.dumps(table) + b"\n\n"
