"""Looking at sound that is laid out once finds what the library finds."""

from __future__ import annotations

import mlx.core as mx
import pytest
from mlx_audio.stt.models.whisper.whisper import MultiHeadAttention

from workers.audio.recognition.attention import CrossAttention


@pytest.mark.parametrize("rows", [1, 3])
def test_what_is_found_is_the_same_for_every_token(rows):
    theirs, ours = MultiHeadAttention(32, 4), CrossAttention(32, 4)
    ours.update(theirs.parameters())
    sound = mx.random.normal((rows, 50, 32), key=mx.random.key(0))
    kept = (None, None)
    for tokens in (5, 1, 1):
        x = mx.random.normal((rows, tokens, 32), key=mx.random.key(tokens))
        theirs_found, theirs_kept, theirs_looks = theirs(x, sound, kv_cache=kept[0])
        found, ours_kept, looks = ours(x, sound, kv_cache=kept[1])
        kept = (theirs_kept, ours_kept)
        assert mx.allclose(found, theirs_found, atol=1e-5)
        assert mx.allclose(looks, theirs_looks, atol=1e-5)
