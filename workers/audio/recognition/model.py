"""The Whisper model that the model thread runs: each step decodes a few windows together.

Owns the choice of windows, of one recording or several, that are decoded together, and the
decoding again of a bad result. A window is at most half a minute, so a step is bounded. Runs on
the model thread.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_audio.stt.models.whisper.audio import (
    N_FRAMES,
    N_SAMPLES,
    log_mel_spectrogram,
    pad_or_trim,
)
from mlx_audio.stt.models.whisper.decoding import DecodingOptions, DecodingResult
from mlx_audio.stt.models.whisper.tokenizer import LANGUAGES

from shared.errors import ServiceError
from shared.pb import audio_pb2 as pb
from workers.audio.pace import StepSize
from workers.audio.recognition import fallback, whisper
from workers.audio.recognition.language import find_code
from workers.audio.recognition.transcription import Transcription, Window, order
from workers.audio.recognition.window import read_tokens
from workers.audio.recognition.word_timing import add_words
from workers.audio.sound.samples import RATE_HZ, Samples
from workers.runtime import Device

# Windows that a GPU decodes together at most, since it may serve other workers, too; on a CPU
# several save no time.
_BATCH = 4
# Before anything is measured.
_FIRST_BATCH = 2
_HOP_HZ = 100
_HOP = RATE_HZ // _HOP_HZ


class WhisperModel:
    """A model that is ready to run.

    Attributes:
        batch: the most windows that are decoded together; fewer while the device is slow.
    """

    def __init__(self, network: Any, name: str, batch: int) -> None:
        self.network = network
        self.batch = batch
        self._name = name
        self._longest = network.dims.n_text_ctx // 2
        self._step_size = StepSize(1, min(_FIRST_BATCH, batch), batch)

    def step(self, jobs: Sequence[Transcription]) -> None:
        """Decode one batch of windows."""
        jobs = order(jobs)
        job = jobs[0]
        for each in jobs if self.batch > 1 else jobs[:1]:
            if each.spectrum is None:
                self._open(each)
        if job.ended:
            return
        if not job.language:
            self._detect_language(job)
        batch = self._pick(job, jobs)
        began_s = time.monotonic()
        features = mx.concatenate([self._encode(item) for item in batch])
        results = self.network.decode(features, self._options(batch[0]))
        self.note_step(len(batch), time.monotonic() - began_s)
        for item, result in zip(batch, results, strict=True):
            self._keep(item, result)

    def note_step(self, windows: int, took_s: float) -> None:
        """Note how long a step took, so that the next are short enough."""
        self._step_size.note(windows, took_s)

    def check(self, request: pb.TranscribeRequest) -> None:
        """Replace a request's language by its code.

        Raises:
            ServiceError: `invalid_request`, the model does not know it.
        """
        code = find_code(request.language)
        if not self.network.is_multilingual:
            if code not in ("", "en"):
                raise _unknown(request.language, f"{self._name} knows English only")
            code = "en"
        elif code and code not in list(LANGUAGES)[: self.network.num_languages]:
            raise _unknown(request.language, "use a code like 'de', or a name like 'german'")
        request.language = code

    def name_language(self, code: str) -> str:
        """Return the English name of a language."""
        return str(LANGUAGES.get(code, code))

    def try_out(self) -> None:
        """Compile the kernels, by decoding a second of noise."""
        noise = np.random.default_rng(0).normal(0, 0.01, RATE_HZ).astype(np.float32)
        mel = pad_or_trim(self._spectrum(noise), N_FRAMES, axis=-2)[None]
        options = DecodingOptions(language="en", sample_len=2, fp16=self._is_half_precision)
        self.network.decode(mel, options)

    @property
    def _is_half_precision(self) -> bool:
        return bool(self.network.dtype == mx.float16)

    def _pick(self, first: Transcription, jobs: Sequence[Transcription]) -> list[Window]:
        """Remove and return the windows to decode now: the first job's, and matching others."""
        batch: list[Window] = []
        for job in jobs:
            while (
                job.waiting and job.style == first.style and len(batch) < int(self._step_size.size)
            ):
                if batch and not _match(batch[0], job.waiting[0]):
                    break
                job.serve()
                batch.append(job.waiting.popleft())
        return batch

    def _spectrum(self, samples: Samples) -> mx.array:
        """Return the spectrum of a whole recording.

        Shape: [hundredths of a second, mel bands].
        Source: Whisper's transcribe.py, which pads the sound and cuts the padding off again.
        """
        mel: mx.array = log_mel_spectrogram(samples, self.network.dims.n_mels, padding=N_SAMPLES)
        mel = mel[:-N_FRAMES].astype(self.network.dtype)
        mx.eval(mel)
        return mel

    def _open(self, job: Transcription) -> None:
        job.serve()
        job.spectrum = self._spectrum(job.samples)
        job.open(in_parts=self.batch > 1)

    def _encode(self, item: Window) -> mx.array:
        """Return the encoder's output for a window.

        A short window is padded with silence, as in Whisper's training data, not with zeros as in
        its transcribe.py, which in a log spectrum mean noise.
        """
        if item.features is None:
            spectrum = item.owner.spectrum
            mel = spectrum[item.begin // _HOP : item.end // _HOP][:N_FRAMES]
            padding = [(0, N_FRAMES - len(mel)), (0, 0)]
            mel = mx.pad(mel, padding, constant_values=spectrum.min())
            item.features = self.network.encoder(mel[None])
            mx.eval(item.features)
        features: mx.array = item.features
        return features

    def _detect_language(self, job: Transcription) -> None:
        """Set a recording's language, from its first window."""
        _, [probabilities] = self.network.detect_language(self._encode(job.waiting[0]))
        job.language = max(probabilities, key=probabilities.__getitem__)

    def _options(self, item: Window) -> DecodingOptions:
        request = item.owner.request
        return DecodingOptions(
            task="translate" if request.translate else "transcribe",
            language=item.owner.language,
            temperature=item.temperature,
            sample_len=min(request.max_tokens or self._longest, self._longest),
            prompt=self._prompt(item) or None,
            fp16=self._is_half_precision,
        )

    def _prompt(self, item: Window) -> list[int]:
        """Return the preceding text, which improves Whisper's accuracy.

        With windows decoded one by one that is all text so far, else what is known of it.
        """
        given = item.owner.request.prompt.strip()
        tokens: list[int] = self.network.get_tokenizer().encode(f" {given}") if given else []
        return tokens + (item.owner.text_tokens if self.batch == 1 else list(item.context))

    def _keep(self, item: Window, result: DecodingResult) -> None:
        """Store a result, or decode its window again at a higher temperature."""
        has_no_speech = fallback.has_no_speech(result)
        if not has_no_speech and not fallback.is_good(result):
            if not item.is_last_fallback:
                item.fallback += 1
                item.best = fallback.choose(item.best, result)
                item.owner.waiting.appendleft(item)
                return
            result = fallback.choose(item.best, result)
        segments, rest = ([], item.end) if has_no_speech else self._segments(item, result)
        item.owner.keep(item, segments, rest)

    def _segments(
        self, item: Window, result: DecodingResult
    ) -> tuple[list[pb.Transcript.Segment], int]:
        """Return a window's segments, and from which sample it must be decoded again."""
        job, tokenizer = item.owner, self.network.get_tokenizer()
        duration_s = (item.end - item.begin) / RATE_HZ
        pieces, rest_s = read_tokens(
            result.tokens,
            tokenizer.timestamp_begin,
            duration_s,
            is_last=item.end == item.limit,
        )
        offset_s = item.begin / RATE_HZ
        segments = []
        for piece in pieces:
            text = tokenizer.decode(piece.tokens)
            if text.strip() and piece.end_s > piece.start_s:
                segments.append(
                    pb.Transcript.Segment(
                        start_s=offset_s + piece.start_s,
                        end_s=min(offset_s + piece.end_s, item.end / RATE_HZ),
                        text=text,
                        tokens=piece.tokens,
                        temperature=result.temperature,
                        avg_logprob=result.avg_logprob,
                        compression_ratio=result.compression_ratio,
                        no_speech_prob=result.no_speech_prob,
                        seek=round(offset_s * _HOP_HZ),
                    )
                )
        if job.request.words:
            self._add_words(item, segments)
        return segments, item.end if rest_s is None else item.begin + round(rest_s * RATE_HZ)

    def _add_words(self, item: Window, segments: Sequence[pb.Transcript.Segment]) -> None:
        task = "translate" if item.owner.request.translate else "transcribe"
        add_words(
            segments,
            self.network,
            self.network.get_tokenizer(item.owner.language, task),
            item.features,
            frames=max(2, (item.end - item.begin) * _HOP_HZ // RATE_HZ),
            begin_s=item.begin / RATE_HZ,
        )


def _match(one: Window, other: Window) -> bool:
    return (one.temperature, one.context) == (other.temperature, other.context)


def _unknown(language: str, hint: str) -> ServiceError:
    return ServiceError(
        "invalid_request", f"language: {language[:40]!r} is not known; {hint}", "language"
    )


def load_whisper(path: Path, batch: int, device: Device) -> WhisperModel:
    """Load the model in a folder, and try it out.

    Args:
        batch: windows that are decoded together; 0 for the device's default.

    Raises:
        PermanentError: it is no Whisper, or incomplete.
    """
    network = whisper.load_network(path, full_precision=device.full_precision)
    model = WhisperModel(network, path.name, batch or (1 if device.full_precision else _BATCH))
    model.try_out()
    return model
