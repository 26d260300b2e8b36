"""Plain float64 forward passes of encoders, one row at a time: the reference for the worker.

Written from the formulas of the papers and the code of transformers, without batches and padding;
the only masks are those of windows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

Array = NDArray[np.float64]
_erf = np.vectorize(math.erf)


class Reference:
    """One checkpoint's forward pass."""

    def __init__(self, folder: Path) -> None:
        self.config: dict[str, Any] = json.loads((folder / "config.json").read_text())
        family = self.config["model_type"]
        prefixes = ("bert.", "roberta.", "model.")
        self.weights = {
            _strip(name, prefixes): array.astype(np.float64)
            for name, array in load_file(str(folder / "model.safetensors")).items()
        }
        passes: dict[str, Callable[..., Array]] = {
            "bert": self._bert,
            "xlm-roberta": self._bert,
            "modernbert": self._modernbert,
            "qwen3": self._qwen3,
            "gemma3_text": self._gemma3,
        }
        self._pass = passes[family]

    def hidden(self, ids: Sequence[int], types: Sequence[int] | None = None) -> Array:
        """Return the last hidden state of each token."""
        return self._pass(np.asarray(ids), np.zeros(len(ids), int) if types is None else types)

    def pooled(self, ids: Sequence[int], pooling: str) -> Array:
        """Return a row's vector, of length 1."""
        hidden = self.hidden(ids)
        one = {
            "mean": lambda: hidden.mean(0),
            "cls": lambda: hidden[0],
            "last": lambda: hidden[-1],
            "max": lambda: hidden.max(0),
        }[pooling]()
        return one / np.linalg.norm(one)

    def score(self, ids: Sequence[int], types: Sequence[int] | None = None) -> float:
        """Return the score of a pair by a classifier with one label."""
        hidden, family = self.hidden(ids, types), self.config["model_type"]
        if family == "bert":
            x = np.tanh(self._linear(hidden[0], "pooler.dense"))
            logit = self._linear(x, "classifier")
        elif family == "xlm-roberta":
            x = np.tanh(self._linear(hidden[0], "classifier.dense"))
            logit = self._linear(x, "classifier.out_proj")
        else:
            pooled = hidden.mean(0) if self.config["classifier_pooling"] == "mean" else hidden[0]
            x = _gelu(self._linear(pooled, "head.dense"))
            logit = self._linear(self._layer_norm(x, "head.norm", 1e-5), "classifier")
        return float(_sigmoid(logit[0]))

    def odds(self, ids: Sequence[int], yes: int, no: int) -> float:
        """Return the probability of one next token against another."""
        table = self.weights.get("lm_head.weight", self.weights["embed_tokens.weight"])
        last = self.hidden(ids)[-1]
        return float(_sigmoid(last @ table[yes] - last @ table[no]))

    # ------------------------------------------------------------------ parts

    def _linear(self, x: Array, name: str) -> Array:
        return x @ self.weights[f"{name}.weight"].T + self.weights.get(f"{name}.bias", 0.0)

    def _layer_norm(self, x: Array, name: str, eps: float) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt(x.var(-1, keepdims=True) + eps)
        return scaled * self.weights[f"{name}.weight"] + self.weights.get(f"{name}.bias", 0.0)

    def _rms_norm(self, x: Array, name: str, offset: float = 0.0) -> Array:
        size = np.sqrt((x * x).mean(-1, keepdims=True) + self.config["rms_norm_eps"])
        return x / size * (offset + self.weights[f"{name}.weight"])

    def _split(self, x: Array) -> Array:
        """Return [heads, tokens, size]."""
        return x.reshape(len(x), self.config["num_attention_heads"], -1).transpose(1, 0, 2)

    # --------------------------------------------------------------- families

    def _bert(self, ids: Array, types: Array) -> Array:
        w, eps = self.weights, self.config["layer_norm_eps"]
        first = self.config["pad_token_id"] + 1 if "roberta" in self.config["model_type"] else 0
        x = w["embeddings.word_embeddings.weight"][ids]
        x = x + w["embeddings.position_embeddings.weight"][first : first + len(ids)]
        x = x + w["embeddings.token_type_embeddings.weight"][types]
        x = self._layer_norm(x, "embeddings.LayerNorm", eps)
        for index in range(self.config["num_hidden_layers"]):
            name = f"encoder.layer.{index}"
            parts = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
            mixed = _attend(*(self._split(self._linear(x, part)) for part in parts))
            mixed = self._linear(mixed, f"{name}.attention.output.dense")
            x = self._layer_norm(mixed + x, f"{name}.attention.output.LayerNorm", eps)
            wide = _gelu(self._linear(x, f"{name}.intermediate.dense"))
            wide = self._linear(wide, f"{name}.output.dense")
            x = self._layer_norm(wide + x, f"{name}.output.LayerNorm", eps)
        return x

    def _modernbert(self, ids: Array, _: Array) -> Array:
        config = self.config
        eps = config["norm_eps"]
        x = self.weights["embeddings.tok_embeddings.weight"][ids]
        x = self._layer_norm(x, "embeddings.norm", eps)
        for index in range(config["num_hidden_layers"]):
            name = f"layers.{index}"
            is_global = index % config["global_attn_every_n_layers"] == 0
            theta = config["global_rope_theta" if is_global else "local_rope_theta"]
            normed = self._layer_norm(x, f"{name}.attn_norm", eps) if index else x
            q, k, v = np.split(self._linear(normed, f"{name}.attn.Wqkv"), 3, axis=-1)
            q, k = _rotate(self._split(q), theta), _rotate(self._split(k), theta)
            reach = None if is_global else config["local_attention"] // 2
            mixed = _attend(q, k, self._split(v), reach=reach)
            x = x + self._linear(mixed, f"{name}.attn.Wo")
            wide = self._linear(self._layer_norm(x, f"{name}.mlp_norm", eps), f"{name}.mlp.Wi")
            value, gate = np.split(wide, 2, axis=-1)
            x = x + self._linear(_gelu(value) * gate, f"{name}.mlp.Wo")
        return self._layer_norm(x, "final_norm", eps)

    def _project(self, x: Array, name: str, theta: float, offset: float) -> tuple[Array, ...]:
        """Return queries, keys and values of a decoder's layer, keys repeated per query head."""
        size, heads = self.config["head_dim"], self.config["num_attention_heads"]
        parts = []
        for part in "qkv":
            y = self._linear(x, f"{name}.{part}_proj").reshape(len(x), -1, size).transpose(1, 0, 2)
            if part != "v":
                y = _rotate(self._rms_norm(y, f"{name}.{part}_norm", offset), theta)
            parts.append(np.repeat(y, heads // len(y), axis=0))
        return tuple(parts)

    def _qwen3(self, ids: Array, _: Array) -> Array:
        x = self.weights["embed_tokens.weight"][ids]
        for index in range(self.config["num_hidden_layers"]):
            name = f"layers.{index}"
            normed = self._rms_norm(x, f"{name}.input_layernorm")
            parts = self._project(normed, f"{name}.self_attn", self.config["rope_theta"], 0.0)
            x = x + self._linear(_attend(*parts, is_causal=True), f"{name}.self_attn.o_proj")
            normed = self._rms_norm(x, f"{name}.post_attention_layernorm")
            gate = self._linear(normed, f"{name}.mlp.gate_proj")
            wide = gate * _sigmoid(gate) * self._linear(normed, f"{name}.mlp.up_proj")
            x = x + self._linear(wide, f"{name}.mlp.down_proj")
        return self._rms_norm(x, "norm")

    def _gemma3(self, ids: Array, _: Array) -> Array:
        config = self.config
        x = self.weights["embed_tokens.weight"][ids] * math.sqrt(config["hidden_size"])
        for index in range(config["num_hidden_layers"]):
            name = f"layers.{index}"
            is_local = (index + 1) % config["sliding_window_pattern"] != 0
            theta = config["rope_local_base_freq" if is_local else "rope_theta"]
            normed = self._rms_norm(x, f"{name}.input_layernorm", 1.0)
            parts = self._project(normed, f"{name}.self_attn", theta, 1.0)
            reach = config["sliding_window"] // 2 if is_local else None
            scale = config["query_pre_attn_scalar"] ** -0.5
            mixed = self._linear(
                _attend(*parts, reach=reach, scale=scale), f"{name}.self_attn.o_proj"
            )
            x = x + self._rms_norm(mixed, f"{name}.post_attention_layernorm", 1.0)
            normed = self._rms_norm(x, f"{name}.pre_feedforward_layernorm", 1.0)
            gate = _gelu_tanh(self._linear(normed, f"{name}.mlp.gate_proj"))
            wide = self._linear(
                gate * self._linear(normed, f"{name}.mlp.up_proj"), f"{name}.mlp.down_proj"
            )
            x = x + self._rms_norm(wide, f"{name}.post_feedforward_layernorm", 1.0)
        return self._rms_norm(x, "norm", 1.0)


def _strip(name: str, prefixes: Sequence[str]) -> str:
    for prefix in prefixes:
        name = name.removeprefix(prefix)
    return name


def _attend(
    q: Array,
    k: Array,
    v: Array,
    *,
    reach: int | None = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> Array:
    """Return attention with its heads joined, [tokens, heads · size]."""
    scores = q @ k.transpose(0, 2, 1) * (scale or q.shape[-1] ** -0.5)
    distance = np.arange(q.shape[1])[:, None] - np.arange(q.shape[1])[None]
    hidden = np.zeros_like(distance, bool)
    if reach is not None:
        hidden |= np.abs(distance) > reach
    if is_causal:
        hidden |= distance < 0
    scores = np.where(hidden, -np.inf, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return (weights @ v).transpose(1, 0, 2).reshape(q.shape[1], -1)


def _rotate(x: Array, theta: float) -> Array:
    """Return [heads, tokens, size] with rotary positions, halves against each other."""
    size = x.shape[-1]
    angles = np.arange(x.shape[1])[:, None] / theta ** (np.arange(0, size, 2) / size)[None]
    cos, sin = np.cos(angles), np.sin(angles)
    one, two = x[..., : size // 2], x[..., size // 2 :]
    return np.concatenate([one * cos - two * sin, two * cos + one * sin], axis=-1)


def _gelu(x: Array) -> Array:
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def _gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))
