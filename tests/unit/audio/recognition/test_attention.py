"""Cross-attention with cached keys and values equals the library's."""

from __future__ import annotations

import mlx.core as mx
import pytest
from mlx_audio.stt.models.whisper.whisper import MultiHeadAttention

from workers.audio.recognition.attention import CrossAttention


@pytest.mark.parametrize("rows", [1, 3])
def test_output_and_scores_are_the_same_for_every_token(rows):
    theirs, ours = MultiHeadAttention(32, 4), CrossAttention(32, 4)
    ours.update(theirs.parameters())
    sound = mx.random.normal((rows, 50, 32), key=mx.random.key(0))
    caches = (None, None)
    for tokens in (5, 1, 1):
        x = mx.random.normal((rows, tokens, 32), key=mx.random.key(tokens))
        theirs_output, theirs_cache, theirs_scores = theirs(x, sound, kv_cache=caches[0])
        output, ours_cache, scores = ours(x, sound, kv_cache=caches[1])
        caches = (theirs_cache, ours_cache)
        assert mx.allclose(output, theirs_output, atol=1e-5)
        assert mx.allclose(scores, theirs_scores, atol=1e-5)
