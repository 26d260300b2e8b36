"""Whisper's cross-attention with keys and values that are computed once per window.

mlx-audio scales and transposes the keys of half a minute again for every token, which on a CPU is
a large part of a token's cost. Runs on the model thread.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx_audio.stt.models.whisper.whisper import MultiHeadAttention

# Keys and values by head: [batch, heads, width, time] and [batch, heads, time, width].
KeysAndValues = tuple[mx.array, mx.array]


class CrossAttention(MultiHeadAttention):  # type: ignore[misc] # mlx-audio has no types
    """Takes the place of the library's own in the text decoder, with the same weights."""

    def __call__(
        self,
        x: mx.array,
        xa: mx.array,
        mask: None = None,  # noqa: ARG002 - the library passes none here
        kv_cache: KeysAndValues | None = None,
    ) -> tuple[mx.array, KeysAndValues, mx.array]:
        """Return the output, the keys and values for the next token, and the scores.

        Args:
            x: of the text: [batch, tokens, width].
            xa: of the sound: [batch, time, width].
            kv_cache: as returned for the last token.
        """
        keys, values = kv_cache or self._make_keys_and_values(xa)
        heads = self._split(self.query(x))
        scores = (heads * heads.shape[-1] ** -0.25) @ keys
        mixed = mx.softmax(scores, axis=-1, precise=True) @ values
        return self.out(mixed.swapaxes(1, 2).reshape(x.shape)), (keys, values), scores

    def _make_keys_and_values(self, sound: mx.array) -> KeysAndValues:
        keys = self._split(self.key(sound))
        keys = (keys * keys.shape[-1] ** -0.25).swapaxes(2, 3)
        return mx.contiguous(keys), mx.contiguous(self._split(self.value(sound)))

    def _split(self, array: mx.array) -> mx.array:
        """Return an array by head: [batch, heads, time, width of a head]."""
        heads: int = self.n_head
        return array.reshape(*array.shape[:2], heads, -1).swapaxes(1, 2)


def replace(decoder: Any) -> None:
    """Replace a decoder's cross-attention, before its weights are loaded."""
    for block in decoder.blocks:
        old = block.cross_attn
        block.cross_attn = CrossAttention(old.query.weight.shape[0], old.n_head)
