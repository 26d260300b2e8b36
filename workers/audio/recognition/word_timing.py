"""The times of words, from the decoder's attention to the sound, and those of their segments.

Runs on the model thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    """Add the words of each segment, and let it begin and end with them.

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
    last_s = begin_s
    for segment, table in zip(segments, tables, strict=True):
        last_s = place_words(segment, table.get("words", ()), last_s)


def place_words(
    segment: pb.Transcript.Segment, timings: Iterable[Mapping[str, Any]], last_s: float
) -> float:
    """Add words to a segment, none before the last one's end, and return where the last ends.

    Whisper's own times of a segment include the silence before and after its words.
    """
    for timing in timings:
        start_s = max(timing["start"], last_s)
        last_s = max(timing["end"], start_s)
        text = timing["word"].strip()
        segment.words.append(pb.Transcript.Word(word=text, start_s=start_s, end_s=last_s))
    if segment.words:
        segment.start_s, segment.end_s = segment.words[0].start_s, last_s
    return last_s
