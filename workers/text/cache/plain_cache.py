"""Joins rows of plain key-value caches with a single copy.

mlx-lm's own `extend` pads both caches, joins them, and copies everything again when the next token
needs room: half a second for a long prompt that joins seven streams of a small model here. This
writes every row once, into arrays with room for the next tokens. Engine thread only.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import BatchKVCache, KVCache


def is_plain(cache: Any) -> bool:
    """Return whether a layer's cache holds the keys and values of every token, and nothing else."""
    return type(cache) in {KVCache, BatchKVCache}


def join(cache: KVCache | BatchKVCache, others: Rows[KVCache]) -> BatchKVCache:
    """Return one layer's rows followed by those of `others`, lazily.

    All hold at least one token. Rows end at the same position, each as long as it was.
    """
    # mlx-lm's caches are annotated in part.
    parts: list[Any] = [cache, *others]
    longest = max(part.size() for part in parts)
    padding = [_padding(part) + longest - part.size() for part in parts]
    offsets = [_offset(part) for part in parts]
    joined = BatchKVCache([])
    keys = _write([part.keys for part in parts], parts, longest)
    values = _write([part.values for part in parts], parts, longest)
    joined.state = (keys, values, mx.concatenate(offsets), mx.concatenate(padding), longest)
    return joined


def _write(arrays: Rows[mx.array], parts: Rows[Any], longest: int) -> mx.array:
    """Return the rows of all parts in one array whose columns end at `longest`, with room."""
    rows = sum(array.shape[0] for array in arrays)
    _, heads, _, width = arrays[0].shape
    room = (longest // BatchKVCache.step + 1) * BatchKVCache.step
    written = mx.zeros((rows, heads, room, width), arrays[0].dtype)
    row = 0
    for array, part in zip(arrays, parts, strict=True):
        end, size = row + array.shape[0], part.size()
        written[row:end, :, longest - size : longest] = array[..., :size, :]
        row = end
    return written


def _padding(part: KVCache | BatchKVCache) -> mx.array:
    return part.left_padding if isinstance(part, BatchKVCache) else mx.array([0])


def _offset(part: KVCache | BatchKVCache) -> mx.array:
    return part.offset if isinstance(part, BatchKVCache) else mx.array([part.offset])
