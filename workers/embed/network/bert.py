"""BERT and RoBERTa encoders (XLM-RoBERTa among them), and their heads with one label.

Parameters are named as in the published checkpoints. The two families differ in their first
position and in the head. Runs on the thread that owns the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mlx.core as mx
from mlx import nn

from workers.embed.network.attention import (
    attend,
    find_activation,
    padding_mask,
)
from workers.embed.network.module import EncoderModule, HeadModule, NetworkModule


class BertEmbeddings(NetworkModule):
    """The sum of token, position and type embeddings."""

    def __init__(self, config: Mapping[str, Any], first_position: int) -> None:
        super().__init__()
        size = config["hidden_size"]
        self.word_embeddings = nn.Embedding(config["vocab_size"], size)
        self.position_embeddings = nn.Embedding(config["max_position_embeddings"], size)
        self.token_type_embeddings = nn.Embedding(config.get("type_vocab_size", 2), size)
        self.LayerNorm = nn.LayerNorm(size, eps=config.get("layer_norm_eps", 1e-12))
        self._first_position = first_position

    def __call__(self, ids: mx.array, type_ids: mx.array | None) -> mx.array:
        positions = mx.arange(self._first_position, self._first_position + ids.shape[1])
        types = mx.zeros((1, 1), mx.int32) if type_ids is None else type_ids
        total = self.word_embeddings(ids) + self.position_embeddings(positions)
        normed: mx.array = self.LayerNorm(total + self.token_type_embeddings(types))
        return normed


class SelfAttention(NetworkModule):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.value = nn.Linear(size, size)
        self._heads = heads

    def __call__(self, x: mx.array, mask: mx.array | None) -> mx.array:
        return attend(
            self._split(self.query(x)), self._split(self.key(x)), self._split(self.value(x)), mask
        )

    def _split(self, x: mx.array) -> mx.array:
        """Return an array by head: [rows, heads, width, size of a head]."""
        return mx.unflatten(x, -1, (self._heads, -1)).transpose(0, 2, 1, 3)


class BertOutput(NetworkModule):
    """A projection, the residual, and the norm after it."""

    def __init__(self, width: int, size: int, eps: float) -> None:
        super().__init__()
        self.dense = nn.Linear(width, size)
        self.LayerNorm = nn.LayerNorm(size, eps=eps)

    def __call__(self, x: mx.array, residual: mx.array) -> mx.array:
        normed: mx.array = self.LayerNorm(self.dense(x) + residual)
        return normed


class BertAttention(NetworkModule):
    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        size, eps = config["hidden_size"], config.get("layer_norm_eps", 1e-12)
        self.self = SelfAttention(size, config["num_attention_heads"])
        self.output = BertOutput(size, size, eps)

    def __call__(self, x: mx.array, mask: mx.array | None) -> mx.array:
        return self.output(self.self(x, mask), x)


class Intermediate(NetworkModule):
    """The first half of the feed-forward part."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.dense = nn.Linear(config["hidden_size"], config["intermediate_size"])
        self._activate = find_activation(config.get("hidden_act", "gelu"))

    def __call__(self, x: mx.array) -> mx.array:
        return self._activate(self.dense(x))


class BertLayer(NetworkModule):
    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.attention = BertAttention(config)
        self.intermediate = Intermediate(config)
        self.output = BertOutput(
            config["intermediate_size"],
            config["hidden_size"],
            config.get("layer_norm_eps", 1e-12),
        )

    def __call__(self, x: mx.array, mask: mx.array | None) -> mx.array:
        x = self.attention(x, mask)
        return self.output(self.intermediate(x), x)


class Stack(NetworkModule):
    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.layer = [BertLayer(config) for _ in range(config["num_hidden_layers"])]


class Bert(EncoderModule):
    """An encoder of the family.

    Args:
        config: of the checkpoint.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        if config.get("position_embedding_type", "absolute") != "absolute":
            raise ValueError("only absolute position embeddings are supported")
        self.embeddings = BertEmbeddings(config, first_position(config))
        self.encoder = Stack(config)

    def __call__(
        self, ids: mx.array, lengths: mx.array | None, type_ids: mx.array | None = None
    ) -> mx.array:
        mask = None if lengths is None else padding_mask(lengths, ids.shape[1])
        x = self.embeddings(ids, type_ids)
        for layer in self.encoder.layer:
            x = layer(x, mask)
        return x


def first_position(config: Mapping[str, Any]) -> int:
    """Return the position of a row's first token.

    RoBERTa's positions start after the padding id.
    Source: transformers' create_position_ids_from_input_ids.
    """
    if config["model_type"] in ("roberta", "xlm-roberta"):
        return int(config.get("pad_token_id", 1)) + 1
    return 0


class BertHead(HeadModule):
    """BERT's classifier: pooler, then one label."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.pooler = {"dense": nn.Linear(config["hidden_size"], config["hidden_size"])}
        self.classifier = nn.Linear(config["hidden_size"], 1)

    def __call__(self, hidden: mx.array, lengths: mx.array) -> mx.array:  # noqa: ARG002 - it scores the first token
        logits: mx.array = self.classifier(mx.tanh(self.pooler["dense"](hidden[:, 0])))
        return logits[:, 0]


class RobertaHead(HeadModule):
    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        size = config["hidden_size"]
        self.classifier = {"dense": nn.Linear(size, size), "out_proj": nn.Linear(size, 1)}

    def __call__(self, hidden: mx.array, lengths: mx.array) -> mx.array:  # noqa: ARG002 - it scores the first token
        x = mx.tanh(self.classifier["dense"](hidden[:, 0]))
        logits: mx.array = self.classifier["out_proj"](x)
        return logits[:, 0]
