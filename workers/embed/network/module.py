"""The types of networks and their parts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Protocol

import mlx.core as mx
from mlx import nn

# From hidden states [rows, width, size] and lengths [rows] to one result per row.
PerRow = Callable[[mx.array, mx.array], mx.array]


class Encoder(Protocol):
    """A network that maps token ids to hidden states."""

    def __call__(
        self, ids: mx.array, lengths: mx.array | None, type_ids: mx.array | None
    ) -> mx.array:
        """Return the last hidden states.

        Args:
            ids: [rows, width].
            lengths: tokens of each row; None if every row fills the width.
            type_ids: [rows, width], which text of a pair a token belongs to; None for the first.

        Shape: [rows, width, size].
        """


class NetworkModule(nn.Module):
    """Base of all parts, which gives `nn.Module` a typed constructor."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # mlx has no annotation here


class EncoderModule(NetworkModule):
    """An `Encoder` with parameters."""

    @abstractmethod
    def __call__(
        self, ids: mx.array, lengths: mx.array | None, type_ids: mx.array | None
    ) -> mx.array: ...


class HeadModule(NetworkModule):
    """A classifier with one label; returns a logit per row: [rows]."""

    @abstractmethod
    def __call__(self, hidden: mx.array, lengths: mx.array) -> mx.array: ...
