"""The times of words, from the decoder's attention to the sound. Runs on the model thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx_audio.stt.models.whisper.timing import add_word_timestamps

from shared.pb import audio_pb2 as pb


class _EncodedWhisper:
    """A network for mlx-audio's word timing that takes encoded sound, to save a second encoding."""

    def __init__(self, network: Any) -> None:
        self.alignment_heads = network.alignment_heads
        self._decoder = network.decoder

    def forward_with_cross_qk(self, features: mx.array, tokens: mx.array) -> tuple[Any, Any]:
        """Return the logits of some tokens, and the cross-attention scores."""
        logits, _, scores = self._decoder(tokens, features)
        return logits, scores


def add_words(
    segments: Sequence[pb.Transcript.Segment],
    network: Any,
    tokenizer: Any,
    features: mx.array,
    *,
    frames: int,
    begin_s: float,
) -> None:
    """Add the words of each segment, with their times.

    Args:
        features: the encoder's output for the window.
        frames: spectrogram frames of the window that hold sound.
        begin_s: where the window begins in the recording.
    """
    tables: list[dict[str, Any]] = [
        {"seek": s.seek, "start": s.start_s, "end": s.end_s, "tokens": list(s.tokens)}
        for s in segments
    ]
    add_word_timestamps(
        segments=tables,
        model=_EncodedWhisper(network),
        tokenizer=tokenizer,
        mel=features[0],
        num_frames=frames,
        last_speech_timestamp=begin_s,
    )
    for segment, table in zip(segments, tables, strict=True):
        for timing in table.get("words", ()):
            word = pb.Transcript.Word(word=timing["word"].strip())
            word.start_s, word.end_s = timing["start"], max(timing["start"], timing["end"])
            segment.words.append(word)
