"""The models of an audio worker: one that transcribes, one that synthesizes speech, or both.

Owns which of them runs the next step, and the card. They take turns step by step, so that a long
recording delays a sentence by one window, and a long text a recording by one sentence. Runs on
the model thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from shared import model_folder
from shared.errors import ServiceError
from shared.lifecycle import PermanentError
from shared.pb import worker_pb2
from shared.settings import AudioSettings
from workers import hub
from workers.arrays import read_parameters
from workers.audio.recognition.model import WhisperModel, load_whisper
from workers.audio.recognition.transcription import Transcription
from workers.audio.sound import encoding, program, recording
from workers.audio.speech import convolution, phoneme
from workers.audio.speech.kokoro import Kokoro, load_kokoro
from workers.audio.speech.utterance import Utterance
from workers.bootstrap import WorkerConfig
from workers.runtime import Device

log = logging.getLogger(__name__)
T = TypeVar("T")

# Queues of the model thread: each kind of call has a limit of its own.
TRANSCRIPTION, SPEECH = "transcription", "speech"


class AudioModels:
    """Models that are ready to run."""

    def __init__(
        self,
        card: worker_pb2.ModelCard,
        transcriber: WhisperModel | None,
        synthesizer: Kokoro | None,
    ) -> None:
        self.card = card
        self._transcriber = transcriber
        self._synthesizer = synthesizer
        self._last_was_speech = False

    @property
    def transcriber(self) -> WhisperModel:
        """The model for recordings.

        Raises:
            ServiceError: there is none.
        """
        return _require(self._transcriber, "stt")

    @property
    def synthesizer(self) -> Kokoro:
        """The model for speech.

        Raises:
            ServiceError: there is none.
        """
        return _require(self._synthesizer, "tts")

    def step(self, jobs: Sequence[Transcription | Utterance]) -> None:
        """Run one step of one model, alternating among those that have jobs of the top class."""
        now_s = time.monotonic()
        top_class = jobs[0].rank(now_s)[0]
        urgent = [job for job in jobs if job.rank(now_s)[0] == top_class]
        utterances = [job for job in urgent if isinstance(job, Utterance)]
        must_alternate = self._last_was_speech and len(utterances) < len(urgent)
        self._last_was_speech = bool(utterances) and not must_alternate
        if self._last_was_speech:
            utterances[0].step(self.synthesizer)
        else:
            self.transcriber.step([job for job in jobs if isinstance(job, Transcription)])


def _require(found: T | None, kind: str) -> T:
    if found is None:
        raise ServiceError("not_implemented", f"audio model kind not loaded: {kind}")
    return found


def load(config: WorkerConfig, device: Device) -> AudioModels:
    """Load the configured models, and try them out.

    Raises:
        PermanentError: one can't be found, or can't run.
    """
    started_s = time.monotonic()
    settings: AudioSettings = config.settings
    paths, unavailable = find_models(settings, config.folder)
    for reason in unavailable.values():
        log.warning("%s", reason)
    speech = [path for path in paths if model_folder.speaks(path)]
    recognition = [path for path in paths if path not in speech]
    if len(speech) > 1 or len(recognition) > 1:
        raise PermanentError(
            f"{paths[0]} and {paths[1]} do the same; configure one Whisper and one Kokoro model"
        )
    transcriber = load_whisper(recognition[0], settings.batch_size, device) if recognition else None
    synthesizer = _load_synthesizer(speech[0], device) if speech else None
    card = _describe(config, paths, transcriber, synthesizer)
    card.unavailable.update(unavailable)
    names = " and ".join(path.name for path in paths)
    log.info("loaded %s in %.1f s", names, time.monotonic() - started_s)
    return AudioModels(card, transcriber, synthesizer)


def find_models(settings: AudioSettings, folder: Path) -> tuple[list[Path], dict[str, str]]:
    """Return the folders of the models that can run here, and what is not available, and why.

    A missing speech model or phonemizer is an error only if no model transcribes.

    Raises:
        PermanentError: a model or the program that every model here needs is missing.
    """
    paths = []
    unavailable = _check_ffmpeg()
    if settings.model:
        paths.append(_locate(settings.model, settings.revision, settings, folder))
    try:
        if settings.speech_model:
            paths.append(_locate(settings.speech_model, "", settings, folder))
        if any(map(model_folder.speaks, paths)):
            _require_phonemizer()
    except PermanentError as failure:
        paths = [path for path in paths if not model_folder.speaks(path)]
        if not paths:
            raise
        unavailable["speech"] = f"{failure}; speech is not served until the next start"
    return paths, unavailable


def _require_phonemizer() -> None:
    if program.find(phoneme.PROGRAM) is None:
        loss = phoneme.NEEDS_PROGRAM
        raise PermanentError(program.describe_missing(phoneme.PROGRAM, loss))


def _check_ffmpeg() -> dict[str, str]:
    """Return which formats need ffmpeg, if it is missing."""
    if program.find("ffmpeg") is not None:
        return {}
    loss = f"{recording.NEEDS_PROGRAM} and {encoding.NEEDS_PROGRAM}"
    return {"compressed audio": program.describe_missing("ffmpeg", loss)}


def _locate(model: str, revision: str, settings: AudioSettings, folder: Path) -> Path:
    return hub.locate(model, folder, revision=revision, offline=settings.offline)


def _load_synthesizer(path: Path, device: Device) -> Kokoro:
    # Only MLX's CPU backend has slow convolutions.
    if device.full_precision:
        convolution.install()
    synthesizer = load_kokoro(path)
    synthesizer.try_out()
    return synthesizer


def _describe(
    config: WorkerConfig,
    paths: Sequence[Path],
    transcriber: WhisperModel | None,
    synthesizer: Kokoro | None,
) -> worker_pb2.ModelCard:
    settings = config.settings
    names = settings.alias or (paths[0].name,)
    networks = [item.network for item in (transcriber, synthesizer) if item is not None]
    arrays = [array for each in networks for array in read_parameters(each).values()]
    limit = settings.queue_depth * len(networks)
    return worker_pb2.ModelCard(
        name=names[0],
        aliases=dict.fromkeys((*names[1:], config.entry.name, *(path.name for path in paths))),
        kind=config.entry.kind,
        path=str(paths[0]),
        model_type="whisper" if transcriber is not None else "kokoro",
        created_unix_s=int(time.time()),
        parameters=sum(array.size for array in arrays),
        weight_bytes=sum(array.nbytes for array in arrays),
        vocab_tokens=transcriber.network.dims.n_vocab if transcriber is not None else 0,
        max_batch_size=transcriber.batch if transcriber is not None else 1,
        slots=limit,
        queue_limit=limit,
        call_timeout_ms=1000 * settings.request_timeout_s,
        audio=worker_pb2.AudioCard(
            transcribes=transcriber is not None,
            speaks=synthesizer is not None,
            voices=synthesizer.voices if synthesizer is not None else (),
        ),
    )
