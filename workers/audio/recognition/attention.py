"""Whisper's look from text at sound, with the sound laid out once per window.

mlx-audio scales and turns the keys of half a minute anew for every token, which on a CPU is a good
part of what a token costs. Runs on the lane's thread.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx_audio.stt.models.whisper.whisper import MultiHeadAttention

# Keys and values by head: [batch, heads, width, time] and [batch, heads, time, width].
Laid = tuple[mx.array, mx.array]


class CrossAttention(MultiHeadAttention):  # type: ignore[misc]
    """In place of the library's own, with the same weights, in the text decoder alone."""

    def __call__(
        self,
        x: mx.array,
        xa: mx.array,
        mask: None = None,  # noqa: ARG002 - the library passes none here
        kv_cache: Laid | None = None,
    ) -> tuple[mx.array, Laid, mx.array]:
        """Return what is found, the sound laid out for the next token, and where it was found.

        Args:
            x: [batch, tokens, width].
            xa: the sound: [batch, time, width].
            kv_cache: as returned for the last token.
        """
        keys, values = kv_cache or self._lay_out(xa)
        heads = self._split(self.query(x))
        looks = (heads * heads.shape[-1] ** -0.25) @ keys
        found = mx.softmax(looks, axis=-1, precise=True) @ values
        return self.out(found.swapaxes(1, 2).reshape(x.shape)), (keys, values), looks

    def _lay_out(self, sound: mx.array) -> Laid:
        keys = self._split(self.key(sound))
        keys = (keys * keys.shape[-1] ** -0.25).swapaxes(2, 3)
        return mx.contiguous(keys), mx.contiguous(self._split(self.value(sound)))

    def _split(self, array: mx.array) -> mx.array:
        """Return an array by head: [batch, heads, time, width of a head]."""
        return array.reshape(*array.shape[:2], self.n_head, -1).swapaxes(1, 2)


def replace(decoder: Any) -> None:
    """Give a decoder this attention, before its weights are loaded."""
    for block in decoder.blocks:
        old = block.cross_attn
        block.cross_attn = CrossAttention(old.query.weight.shape[0], old.n_head)
