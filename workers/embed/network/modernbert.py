"""ModernBERT encoders, and their one-label head.

Pre-norm blocks with rotary positions; most layers see a window only, and each kind of layer has
a rotary base of its own. Parameters are named as in the published checkpoints. Runs on the thread
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
    """Return a config with every field given."""
    return {**_DEFAULTS, **{name: value for name, value in config.items() if value is not None}}


def _is_global(config: Mapping[str, Any], index: int) -> bool:
    kinds = config.get("layer_types")
    if kinds:
        return kinds[index] == "full_attention"
    return index % config["global_attn_every_n_layers"] == 0


def _rope_base(config: Mapping[str, Any], *, is_global: bool) -> float:
    """Return the rotary base of a kind of layer; newer configs nest it."""
    kind, plain = _THETAS[is_global]
    nested = (config.get("rope_parameters") or {}).get(kind) or {}
    if nested.get("rope_type", "default") != "default":
        raise ValueError(f"rope type {nested['rope_type']!r} is not known")
    return float(nested.get("rope_theta", config[plain]))


def _norm(config: Mapping[str, Any]) -> nn.LayerNorm:
    return nn.LayerNorm(config["hidden_size"], eps=config["norm_eps"], bias=config["norm_bias"])


class ModernBertEmbeddings(nn.Module):
    """Token vectors, normed; positions come in with the attention."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.norm = _norm(config)

    def __call__(self, ids: mx.array) -> mx.array:
        return self.norm(self.tok_embeddings(ids))


class ModernBertAttention(nn.Module):
    """Self-attention with rotary positions."""

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
        return self.Wo(attend(self.rope(parts[0]), self.rope(parts[1]), parts[2], mask))


class Gated(nn.Module):
    """The gated feed-forward part."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        size, width, bias = config["hidden_size"], config["intermediate_size"], config["mlp_bias"]
        self.Wi = nn.Linear(size, 2 * width, bias=bias)
        self.Wo = nn.Linear(width, size, bias=bias)
        self._activate = find_activation(config["hidden_activation"])

    def __call__(self, x: mx.array) -> mx.array:
        value, gate = mx.split(self.Wi(x), 2, axis=-1)
        return self.Wo(self._activate(value) * gate)


class ModernBertLayer(nn.Module):
    """One block; the first needs no norm of its own, since the embeddings are normed."""

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


class ModernBert(nn.Module):
    """An encoder of the family; the checkpoint's parameters lie under `model`.

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
        type_ids: mx.array | None = None,  # noqa: ARG002 - this family does not tell texts apart
    ) -> mx.array:
        """Return the last hidden states.

        Args:
            ids: [rows, width].
            lengths: tokens of each row; None when every row fills the width.

        Shape: [rows, width, size].
        """
        rows, width = ids.shape
        whole = None if lengths is None else padding_mask(lengths, width)
        near = whole
        if width > self._reach + 1:
            filled = mx.full((rows,), width) if lengths is None else lengths
            near = window_mask(filled, width, self._reach)
        x = self.embeddings(ids)
        for layer in self.layers:
            x = layer(x, whole, near)
        return self.final_norm(x)


class ModernBertHead(nn.Module):
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

    def __call__(self, hidden: mx.array, lengths: mx.array | None) -> mx.array:
        """Return the logit of each row.

        Shape: [rows].
        """
        x = self.head["dense"](self._pool(hidden, lengths))
        return self.classifier(self.head["norm"](self._activate(x)))[:, 0]

    def _pool(self, hidden: mx.array, lengths: mx.array | None) -> mx.array:
        if not self._pools_mean:
            return hidden[:, 0]
        if lengths is None:
            return hidden.mean(axis=1)
        real = real_tokens(lengths, hidden.shape[1])[..., None]
        return mx.where(real, hidden, 0).sum(axis=1) / lengths[:, None]
