"""The model that the lane runs: a few windows of sound per step, whosever they are.

Owns the choice of windows that are decoded together, and what is done with an unlikely result.
Windows of one recording and of several go together when they are to be decoded in the
same way; none is longer than half a minute, so that a step is bounded. Runs on the lane's thread.
"""

from __future__ import annotations

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
from mlx_audio.stt.models.whisper.timing import add_word_timestamps
from mlx_audio.stt.models.whisper.tokenizer import LANGUAGES, TO_LANGUAGE_CODE

from shared.errors import ServiceError
from shared.pb import audio_pb2 as pb
from workers.audio.recognition import whisper
from workers.audio.recognition import window as windows
from workers.audio.recognition.transcription import LEAST_LOGPROB, Transcription, Window, order
from workers.audio.recognition.window import RATE_HZ
from workers.runtime import Device

# Windows that a GPU decodes in about the time of one; a CPU is busy with one.
_BATCH = 8
# Source: Whisper's transcribe.py: repeats itself, is no speech.
_MOST_COMPRESSED = 2.4
_NO_SPEECH = 0.6
# A hum passes as one unlikely word; then the model is all but sure that nobody speaks.
_SURELY_NO_SPEECH, _DOUBTED_LOGPROB = 0.85, -0.6
_HOP_HZ = 100
_HOP = RATE_HZ // _HOP_HZ


class _Listener:
    """What times words asks of a network, without a second run of the encoder."""

    def __init__(self, network: Any) -> None:
        self.alignment_heads = network.alignment_heads
        self._decoder = network.decoder

    def forward_with_cross_qk(self, features: mx.array, tokens: mx.array) -> tuple[Any, Any]:
        """Return the logits of some tokens, and where each head looks."""
        logits, _, attention = self._decoder(tokens, features)
        return logits, attention


class WhisperModel:
    """A model that is ready to run.

    Attributes:
        batch: windows that are decoded together at most.
    """

    def __init__(self, network: Any, name: str, batch: int) -> None:
        self.network = network
        self.batch = batch
        self._name = name
        self._longest = network.dims.n_text_ctx // 2

    def step(self, jobs: Sequence[Transcription]) -> None:
        """Decode some windows once."""
        jobs = order(jobs)
        job = jobs[0]
        for each in jobs if self.batch > 1 else jobs[:1]:
            if each.spectrum is None:
                self._open(each)
        if job.ended:
            return
        if not job.language:
            self._find_language(job)
        batch = self._pick(job, jobs)
        features = mx.concatenate([self._encode(item) for item in batch])
        results = self.network.decode(features, self._options(batch[0]))
        for item, result in zip(batch, results, strict=True):
            self._take(item, result)

    def check(self, request: pb.TranscribeRequest) -> None:
        """Make a request's language a code.

        Raises:
            ServiceError: `invalid_request`, the model does not know it.
        """
        asked = request.language.strip().lower()
        # What clients of whisper.cpp say for none.
        if asked == "auto":
            asked = ""
        code = TO_LANGUAGE_CODE.get(asked, asked.split("-")[0])
        if not self.network.is_multilingual:
            if asked and code != "en":
                raise _unknown(request.language, f"{self._name} knows English only")
            code = "en"
        elif asked and code not in list(LANGUAGES)[: self.network.num_languages]:
            raise _unknown(request.language, "use a code like 'de', or a name like 'german'")
        request.language = code

    def name_language(self, code: str) -> str:
        """Return the English name of a language."""
        return LANGUAGES.get(code, code)

    def try_out(self) -> None:
        """Compile what is needed, on a second of noise."""
        noise = np.random.default_rng(0).normal(0, 0.01, RATE_HZ).astype(np.float32)
        mel = pad_or_trim(self._spectrum(noise), N_FRAMES, axis=-2)[None]
        options = DecodingOptions(language="en", sample_len=2, fp16=self._halves)
        self.network.decode(mel, options)

    # ---------------------------------------------------------------- innards

    @property
    def _halves(self) -> bool:
        return bool(self.network.dtype == mx.float16)

    def _pick(self, first: Transcription, jobs: Sequence[Transcription]) -> list[Window]:
        """Take the windows to decode now: the first job's, and others in the same style."""
        batch: list[Window] = []
        for job in jobs:
            while job.waiting and job.style == first.style and len(batch) < self.batch:
                if batch and not _go_together(batch[0], job.waiting[0]):
                    break
                job.serve()
                batch.append(job.waiting.popleft())
        return batch

    def _spectrum(self, samples: windows.Samples) -> mx.array:
        """Return the spectrum of a whole recording.

        Shape: [hundredths of a second, mel bands].
        Source: Whisper's transcribe.py: the silence that the sound is followed by is cut off.
        """
        mel = log_mel_spectrogram(samples, self.network.dims.n_mels, padding=N_SAMPLES)
        mel = mel[:-N_FRAMES].astype(self.network.dtype)
        mx.eval(mel)
        return mel

    def _open(self, job: Transcription) -> None:
        job.serve()
        job.spectrum = self._spectrum(job.samples)
        job.open(in_parts=self.batch > 1)

    def _encode(self, item: Window) -> mx.array:
        """Return what the encoder makes of a window.

        What a short one lacks is silence, as in what Whisper was trained on, not zeros, which its
        transcribe.py puts there and which stand for a noise.
        """
        if item.features is None:
            spectrum = item.owner.spectrum
            mel = spectrum[item.begin // _HOP : item.end // _HOP][:N_FRAMES]
            lacking = [(0, N_FRAMES - len(mel)), (0, 0)]
            mel = mx.pad(mel, lacking, constant_values=spectrum.min())
            item.features = self.network.encoder(mel[None])
            mx.eval(item.features)
        return item.features

    def _find_language(self, job: Transcription) -> None:
        """Find out what is spoken, by the beginning of a recording."""
        _, [chances] = self.network.detect_language(self._encode(job.waiting[0]))
        job.language = max(chances, key=chances.__getitem__)

    def _options(self, item: Window) -> DecodingOptions:
        request = item.owner.request
        return DecodingOptions(
            task="translate" if request.translate else "transcribe",
            language=item.owner.language,
            temperature=item.temperature,
            sample_len=min(request.max_tokens or self._longest, self._longest),
            prompt=self._prompt(item) or None,
            fp16=self._halves,
        )

    def _prompt(self, item: Window) -> list[int]:
        """Return what comes before a window: Whisper hears better then.

        Where windows go one by one that is all that was said; else what is known of it.
        """
        given = item.owner.request.prompt.strip()
        tokens: list[int] = self.network.get_tokenizer().encode(f" {given}") if given else []
        return tokens + (item.owner.said if self.batch == 1 else list(item.context))

    def _take(self, item: Window, result: DecodingResult) -> None:
        """Give a result to its call, or have it tried again at a higher temperature."""
        is_silent = _is_silent(result)
        if not is_silent and not _is_good(result):
            if not item.is_last_rung:
                item.rung += 1
                item.best = _choose(item.best, result)
                item.owner.waiting.appendleft(item)
                return
            result = _choose(item.best, result)
        segments, rest = ([], item.end) if is_silent else self._segments(item, result)
        item.owner.keep(item, segments, rest)

    def _segments(
        self, item: Window, result: DecodingResult
    ) -> tuple[list[pb.Transcript.Segment], int]:
        """Return what a window says, and where it must be heard again, in samples."""
        job, tokenizer = item.owner, self.network.get_tokenizer()
        duration_s = (item.end - item.begin) / RATE_HZ
        pieces, rest_s = windows.read(
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
            self._time_words(item, segments)
        return segments, item.end if rest_s is None else item.begin + round(rest_s * RATE_HZ)

    def _time_words(self, item: Window, segments: Sequence[pb.Transcript.Segment]) -> None:
        """Add to each segment when its words were said."""
        tables: list[dict[str, Any]] = [
            {"seek": s.seek, "start": s.start_s, "end": s.end_s, "tokens": list(s.tokens)}
            for s in segments
        ]
        task = "translate" if item.owner.request.translate else "transcribe"
        add_word_timestamps(
            segments=tables,
            model=_Listener(self.network),
            tokenizer=self.network.get_tokenizer(item.owner.language, task),
            mel=item.features[0],
            num_frames=max(2, (item.end - item.begin) * _HOP_HZ // RATE_HZ),
            last_speech_timestamp=item.begin / RATE_HZ,
        )
        for segment, table in zip(segments, tables, strict=True):
            for word in table.get("words", ()):
                said = pb.Transcript.Word(word=word["word"].strip())
                said.start_s, said.end_s = word["start"], max(word["start"], word["end"])
                segment.words.append(said)


def _go_together(one: Window, other: Window) -> bool:
    return (one.temperature, one.context) == (other.temperature, other.context)


def _is_good(result: DecodingResult) -> bool:
    return bool(
        result.avg_logprob >= LEAST_LOGPROB and result.compression_ratio <= _MOST_COMPRESSED
    )


def _choose(best: DecodingResult | None, result: DecodingResult) -> DecodingResult:
    """Return the better of two results that are both bad: chance makes worse text than doubt."""
    if best is None:
        return result
    return max(best, result, key=lambda r: (r.compression_ratio <= _MOST_COMPRESSED, r.avg_logprob))


def _is_silent(result: DecodingResult) -> bool:
    """Return whether nobody speaks in a window, whatever words have come out of it."""
    if result.no_speech_prob > _SURELY_NO_SPEECH:
        return bool(result.avg_logprob < _DOUBTED_LOGPROB)
    return bool(result.no_speech_prob > _NO_SPEECH and result.avg_logprob < LEAST_LOGPROB)


def _unknown(language: str, hint: str) -> ServiceError:
    return ServiceError(
        "invalid_request", f"language: {language[:40]!r} is not known; {hint}", "language"
    )


def load(path: Path, batch: int, device: Device) -> WhisperModel:
    """Load the model in a folder, and try it out.

    Args:
        batch: windows that are decoded together; 0 leaves it to the device.

    Raises:
        PermanentError: it is none, or not whole.
    """
    network = whisper.load(path, full_precision=device.full_precision)
    model = WhisperModel(network, path.name, batch or (1 if device.full_precision else _BATCH))
    model.try_out()
    return model
