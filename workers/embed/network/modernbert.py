"""ModernBERT encoders, and their head with one label.

Pre-norm blocks with rotary positions; most layers attend to a window only, and each kind of layer
has its own rotary base. Parameters are named as in the published checkpoints. Runs on the thread
that owns the model.
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
    real_tokens,
    window_mask,
)
from workers.embed.network.module import EncoderModule, HeadModule, NetworkModule

# Defaults of transformers' ModernBertConfig, for the fields a config.json may leave out.
_DEFAULTS: Mapping[str, Any] = {
    "norm_eps": 1e-5,
    "norm_bias": False,
    "attention_bias": False,
    "mlp_bias": False,
    "classifier_bias": False,
    "hidden_activation": "gelu",
    "classifier_activation": "gelu",
    "classifier_pooling": "cls",
    "local_attention": 128,
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 160_000.0,
    "local_rope_theta": 10_000.0,
}
_THETAS: Mapping[bool, tuple[str, str]] = {
    True: ("full_attention", "global_rope_theta"),
    False: ("sliding_attention", "local_rope_theta"),
}


def complete(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config with its missing fields."""
    return {**_DEFAULTS, **{name: value for name, value in config.items() if value is not None}}


def _is_global(config: Mapping[str, Any], index: int) -> bool:
    kinds = config.get("layer_types")
    if kinds:
        return bool(kinds[index] == "full_attention")
    return index % int(config["global_attn_every_n_layers"]) == 0


def _rope_base(config: Mapping[str, Any], *, is_global: bool) -> float:
    """Return the rotary base of a kind of layer; newer configs nest it."""
    kind, plain = _THETAS[is_global]
    nested = (config.get("rope_parameters") or {}).get(kind) or {}
    if nested.get("rope_type", "default") != "default":
        raise ValueError(f"rope type {nested['rope_type']!r} is not supported")
    return float(nested.get("rope_theta", config[plain]))


def _norm(config: Mapping[str, Any]) -> nn.LayerNorm:
    return nn.LayerNorm(config["hidden_size"], eps=config["norm_eps"], bias=config["norm_bias"])


class ModernBertEmbeddings(NetworkModule):
    """Normed token embeddings; positions are added by the attention."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.norm = _norm(config)

    def __call__(self, ids: mx.array) -> mx.array:
        normed: mx.array = self.norm(self.tok_embeddings(ids))
        return normed


class ModernBertAttention(NetworkModule):
    def __init__(self, config: Mapping[str, Any], *, is_global: bool) -> None:
        super().__init__()
        size, bias = config["hidden_size"], config["attention_bias"]
        self._heads = config["num_attention_heads"]
        self.Wqkv = nn.Linear(size, 3 * size, bias=bias)
        self.Wo = nn.Linear(size, size, bias=bias)
        base = _rope_base(config, is_global=is_global)
        self.rope = nn.RoPE(size // self._heads, traditional=False, base=base)

    def __call__(self, x: mx.array, mask: mx.array | None) -> mx.array:
        parts = mx.unflatten(self.Wqkv(x), -1, (3, self._heads, -1)).transpose(2, 0, 3, 1, 4)
        mixed = attend(self.rope(parts[0]), self.rope(parts[1]), parts[2], mask)
        output: mx.array = self.Wo(mixed)
        return output


class Gated(NetworkModule):
    """The gated feed-forward part."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        size, width, bias = config["hidden_size"], config["intermediate_size"], config["mlp_bias"]
        self.Wi = nn.Linear(size, 2 * width, bias=bias)
        self.Wo = nn.Linear(width, size, bias=bias)
        self._activate = find_activation(config["hidden_activation"])

    def __call__(self, x: mx.array) -> mx.array:
        value, gate = mx.split(self.Wi(x), 2, axis=-1)
        output: mx.array = self.Wo(self._activate(value) * gate)
        return output


class ModernBertLayer(NetworkModule):
    """One block; the first has no attention norm, since the embeddings are normed."""

    def __init__(self, config: Mapping[str, Any], index: int) -> None:
        super().__init__()
        self._is_global = _is_global(config, index)
        self.attn_norm = _norm(config) if index else nn.Identity()
        self.attn = ModernBertAttention(config, is_global=self._is_global)
        self.mlp_norm = _norm(config)
        self.mlp = Gated(config)

    def __call__(self, x: mx.array, whole: mx.array | None, near: mx.array | None) -> mx.array:
        x = x + self.attn(self.attn_norm(x), whole if self._is_global else near)
        return x + self.mlp(self.mlp_norm(x))


class ModernBert(EncoderModule):
    """An encoder of the family; its parameters in a checkpoint have the prefix `model`.

    Args:
        config: complete.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.embeddings = ModernBertEmbeddings(config)
        self.layers = [
            ModernBertLayer(config, index) for index in range(config["num_hidden_layers"])
        ]
        self.final_norm = _norm(config)
        # `local_attention` is the whole window, both sides and the token itself.
        self._reach = config["local_attention"] // 2

    def __call__(
        self,
        ids: mx.array,
        lengths: mx.array | None,
        type_ids: mx.array | None = None,  # noqa: ARG002 - this family has no token types
    ) -> mx.array:
        rows, width = ids.shape
        whole = None if lengths is None else padding_mask(lengths, width)
        near = whole
        if width > self._reach + 1:
            filled = mx.full((rows,), width) if lengths is None else lengths
            near = window_mask(filled, width, self._reach)
        x = self.embeddings(ids)
        for layer in self.layers:
            x = layer(x, whole, near)
        hidden: mx.array = self.final_norm(x)
        return hidden


class ModernBertHead(HeadModule):
    """ModernBERT's classifier: a pooled vector, a dense layer with its norm, then one label."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        size = config["hidden_size"]
        self.head = {
            "dense": nn.Linear(size, size, bias=config["classifier_bias"]),
            "norm": _norm(config),
        }
        self.classifier = nn.Linear(size, 1)
        self._activate = find_activation(config["classifier_activation"])
        self._pools_mean = config["classifier_pooling"] == "mean"

    def __call__(self, hidden: mx.array, lengths: mx.array) -> mx.array:
        x = self.head["dense"](self._pool(hidden, lengths))
        logits: mx.array = self.classifier(self.head["norm"](self._activate(x)))
        return logits[:, 0]

    def _pool(self, hidden: mx.array, lengths: mx.array) -> mx.array:
        if not self._pools_mean:
            return hidden[:, 0]
        real = real_tokens(lengths, hidden.shape[1])[..., None]
        return mx.where(real, hidden, 0).sum(axis=1) / lengths[:, None]
