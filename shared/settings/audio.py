"""Settings of an audio worker. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from shared.declaration import Setting
from shared.settings.process import WIRE_WEIGHTS, KeepWarm, LogLevel, Offline, Wired
from shared.settings.value import Count, Timeout


@dataclass(frozen=True)
class AudioSettings:
    """Audio worker."""

    model: Annotated[
        str,
        Setting(
            "--audio-model LLAMA_ARG_AUDIO_MODEL MLXCEL_AUDIO_MODEL",
            "Whisper or Kokoro model: a folder, or owner/name on the Hugging Face hub.",
        ),
    ] = ""
    speech_model: Annotated[
        str,
        Setting(
            "--speech-model MLXCEL_SPEECH_MODEL",
            "Kokoro model served by the same worker as a Whisper model.",
        ),
    ] = ""
    alias: Annotated[
        tuple[str, ...],
        Setting(
            "--audio-alias MLXCEL_AUDIO_ALIAS",
            "Names the audio model also answers to; the first one is shown.",
        ),
    ] = ()
    queue_depth: Annotated[
        int,
        Meta(ge=1),
        Setting(
            "--audio-queue-depth MLXCEL_AUDIO_QUEUE_DEPTH",
            "Requests in the worker, waiting and running, per model; further ones get a 503.",
            unit="requests",
            means={"0": 1},
        ),
    ] = 8
    request_timeout_s: Annotated[
        Timeout,
        Setting(
            "--audio-request-timeout-secs MLXCEL_AUDIO_REQUEST_TIMEOUT_SECS",
            "Time limit of a request; in a stream, of each piece.",
            unit="s",
            means={"0": 120},
        ),
    ] = 120
    max_duration_s: Annotated[
        int,
        Meta(ge=1),
        Setting(
            "--audio-max-duration-secs MLXCEL_AUDIO_MAX_DURATION_SECS",
            "Longest recording accepted.",
            unit="s",
        ),
    ] = 600
    batch_size: Annotated[
        Count,
        Setting(
            "--audio-batch-size MLXCEL_AUDIO_BATCH_SIZE",
            "Windows of 30 seconds decoded together. 0: chosen for the device.",
            unit="windows",
        ),
    ] = 0
    offline: Offline = False
    revision: Annotated[
        str,
        Setting(
            "--audio-revision MLXCEL_AUDIO_REVISION",
            "Branch, tag or commit of the audio model on the hub.",
        ),
    ] = ""
    wired: Wired = WIRE_WEIGHTS
    keep_warm: KeepWarm = True
    log_level: LogLevel = "info"
