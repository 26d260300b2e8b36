"""The models that one lane runs: one that listens, one that speaks, or both.

Owns which of them has the next step, and the card. They take turns step by step, so that a
recording of an hour delays a sentence by one window, and a long text a recording by one sentence.
Runs on the lane's thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from mlx.utils import tree_flatten

from shared import model_folder
from shared.errors import ServiceError
from shared.lifecycle import PermanentError
from shared.pb import worker_pb2
from shared.settings import AudioSettings
from workers import hub
from workers.audio.recognition import model
from workers.audio.recognition.model import WhisperModel
from workers.audio.recognition.transcription import Transcription
from workers.audio.speech import convolution, kokoro, phoneme
from workers.audio.speech.kokoro import Kokoro
from workers.audio.speech.utterance import Utterance
from workers.bootstrap import WorkerConfig
from workers.runtime import Device

log = logging.getLogger(__name__)
T = TypeVar("T")

_DEFAULT_TIMEOUT_S = 120
# The lane's queues: neither kind of call takes the other's places.
LISTENING, SPEAKING = "listening", "speaking"


class AudioModels:
    """Models that are ready to run."""

    def __init__(
        self, card: worker_pb2.ModelCard, listener: WhisperModel | None, speaker: Kokoro | None
    ) -> None:
        self.card = card
        self._listener = listener
        self._speaker = speaker
        self._has_spoken = False

    @property
    def listener(self) -> WhisperModel:
        """The model that listens.

        Raises:
            ServiceError: there is none.
        """
        return _require(self._listener, "stt")

    @property
    def speaker(self) -> Kokoro:
        """The model that speaks.

        Raises:
            ServiceError: there is none.
        """
        return _require(self._speaker, "tts")

    def step(self, jobs: Sequence[Transcription | Utterance]) -> None:
        """Do one step of one model: of those that the most urgent jobs are for, each in turn."""
        now_s = time.monotonic()
        most_urgent = jobs[0].rank(now_s)[0]
        urgent = [job for job in jobs if job.rank(now_s)[0] == most_urgent]
        speaking = [job for job in urgent if isinstance(job, Utterance)]
        must_turn = self._has_spoken and len(speaking) < len(urgent)
        self._has_spoken = bool(speaking) and not must_turn
        if self._has_spoken:
            speaking[0].step(self.speaker)
        else:
            self.listener.step([job for job in jobs if isinstance(job, Transcription)])


def _require(found: T | None, kind: str) -> T:
    if found is None:
        raise ServiceError("not_implemented", f"audio model kind not loaded: {kind}")
    return found


def load(place: WorkerConfig, device: Device) -> AudioModels:
    """Load the models of a place in the fleet, and try them out.

    Raises:
        PermanentError: one is not to be had, or can't run.
    """
    started_s = time.monotonic()
    settings: AudioSettings = place.settings
    paths = _find_models(settings, place)
    speaking = [path for path in paths if model_folder.speaks(path)]
    listening = [path for path in paths if path not in speaking]
    if len(speaking) > 1 or len(listening) > 1:
        raise PermanentError(f"{paths[0]} and {paths[1]} do the same; give one that speaks")
    listener = model.load(listening[0], settings.batch_size, device) if listening else None
    speaker = _load_speaker(speaking[0], device) if speaking else None
    card = _describe(place, paths, listener, speaker)
    log.info("loaded %s in %.1f s", " and ".join(p.name for p in paths), _since(started_s))
    return AudioModels(card, listener, speaker)


def _since(started_s: float) -> float:
    return time.monotonic() - started_s


def _find_models(settings: AudioSettings, place: WorkerConfig) -> list[Path]:
    """Return the folders of the models that can be run here.

    A voice that is not to be had, because it could not be installed or there is nothing that
    writes phonemes, must not keep recordings from being transcribed.
    """
    wanted = {"revision": settings.revision, "offline": settings.offline}
    paths = []
    if settings.model:
        paths.append(hub.locate(settings.model, place.folder, **wanted))
    try:
        if settings.speech_model:
            wanted["revision"] = ""
            paths.append(hub.locate(settings.speech_model, place.folder, **wanted))
        if any(map(model_folder.speaks, paths)):
            phoneme.require_program()
    except PermanentError as failure:
        paths = [path for path in paths if not model_folder.speaks(path)]
        if not paths:
            raise
        log.error("%s; speech is not served until the next start", failure)  # noqa: TRY400
    return paths


def _load_speaker(path: Path, device: Device) -> Kokoro:
    # What this stands for is slow on MLX's CPU backend, and there alone.
    if device.full_precision:
        convolution.install()
    speaker = kokoro.load(path)
    speaker.try_out()
    return speaker


def _describe(
    place: WorkerConfig,
    paths: Sequence[Path],
    listener: WhisperModel | None,
    speaker: Kokoro | None,
) -> worker_pb2.ModelCard:
    """Return the card of loaded models."""
    settings = place.settings
    names = settings.alias or (paths[0].name,)
    networks = [item.network for item in (listener, speaker) if item is not None]
    arrays = [array for each in networks for _, array in tree_flatten(each.parameters())]
    places = max(1, settings.queue_depth) * len(networks)
    return worker_pb2.ModelCard(
        name=names[0],
        aliases=dict.fromkeys((*names[1:], place.entry.name, *(path.name for path in paths))),
        kind=place.entry.kind,
        path=str(paths[0]),
        model_type="whisper" if listener is not None else "kokoro",
        created_unix_s=int(time.time()),
        parameters=sum(array.size for array in arrays),
        weight_bytes=sum(array.nbytes for array in arrays),
        vocab_tokens=listener.network.dims.n_vocab if listener is not None else 0,
        max_batch_size=listener.batch if listener is not None else 1,
        slots=places,
        queue_limit=places,
        call_timeout_ms=1000 * (settings.request_timeout_s or _DEFAULT_TIMEOUT_S),
        audio=worker_pb2.AudioCard(
            transcribes=listener is not None,
            speaks=speaker is not None,
            voices=speaker.voices if speaker is not None else (),
        ),
    )
