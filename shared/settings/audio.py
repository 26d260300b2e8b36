"""Settings of an audio worker. Pure data."""

from __future__ import annotations

from dataclasses import dataclass

from shared.declaration import setting
from shared.settings import process


@dataclass(frozen=True)
class AudioSettings:
    """Audio worker: its models, and what it takes of recordings."""

    model: str = setting(
        "",
        "Folder of a Whisper or Kokoro model, or owner/name on the Hugging Face hub.",
        flags=("--audio-model",),
        env=("LLAMA_ARG_AUDIO_MODEL", "MLXCEL_AUDIO_MODEL"),
    )
    speech_model: str = setting(
        "",
        "A Kokoro model beside a Whisper model: one worker then listens and speaks.",
        flags=("--speech-model",),
        env=("MLXCEL_SPEECH_MODEL",),
    )
    alias: tuple[str, ...] = setting(
        (),
        "Names the model also answers to; the first is the one shown.",
        flags=("--audio-alias",),
        env=("MLXCEL_AUDIO_ALIAS",),
    )
    queue_depth: int = setting(
        8,
        "Recordings that may be at the worker, and as many texts; one more is answered 503. 0: 1.",
        flags=("--audio-queue-depth",),
        env=("MLXCEL_AUDIO_QUEUE_DEPTH",),
        unit="requests",
    )
    request_timeout_s: int = setting(
        120,
        "Longest time one request may take, or a stream until its next piece; 0: the default.",
        flags=("--audio-request-timeout-secs",),
        env=("MLXCEL_AUDIO_REQUEST_TIMEOUT_SECS",),
        unit="s",
    )
    max_duration_s: int = setting(
        600,
        "Longest recording; a longer one is refused.",
        flags=("--audio-max-duration-secs",),
        env=("MLXCEL_AUDIO_MAX_DURATION_SECS",),
        unit="s",
    )
    batch_size: int = setting(
        0,
        "Windows of half a minute that are decoded together; 0: what keeps the device busy.",
        flags=("--audio-batch-size",),
        env=("MLXCEL_AUDIO_BATCH_SIZE",),
        unit="windows",
    )
    offline: bool = process.offline()
    revision: str = setting(
        "",
        "Branch, tag or commit of `model` on the hub.",
        flags=("--audio-revision",),
        env=("MLXCEL_AUDIO_REVISION",),
    )
    log_level: str = process.log_level()
