"""Decoders that embed: Qwen3 (causal) and EmbeddingGemma (a Gemma 3 with bidirectional attention).

The layers are mlx-lm's. What differs from text generation is here: no cache, rows padded on the
right, and other masks for Gemma. Runs on the thread that owns the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.models import gemma3_text, qwen3
from mlx_lm.utils import load_model

from workers.embed.network.attention import padding_mask, window_mask

_DENSE = "dense."
_MODULES: Mapping[str, Any] = {"qwen3": qwen3, "gemma3_text": gemma3_text}


class Decoder:
    """A loaded decoder.

    Args:
        network: mlx-lm's model.
        dense: weights of layers after the pooling, if a checkpoint has them among its own.
        is_bidirectional: whether tokens also attend to those after them.
    """

    def __init__(
        self, network: Any, dense: Sequence[mx.array] = (), *, is_bidirectional: bool
    ) -> None:
        self.network = network
        self.dense = dense
        self._is_bidirectional = is_bidirectional

    def __call__(
        self,
        ids: mx.array,
        lengths: mx.array | None,
        type_ids: mx.array | None = None,  # noqa: ARG002 - decoders have no token types
    ) -> mx.array:
        """Return the last hidden states.

        A causal model needs no mask for padding on the right.
        """
        if not self._is_bidirectional:
            hidden: mx.array = self.network.model(ids)
            return hidden
        return self._run_bidirectional(ids, lengths)

    def read_logits(self, hidden: mx.array) -> mx.array:
        """Return the language head's output.

        Shape: [rows, size] to [rows, vocabulary].
        """
        head = getattr(self.network, "lm_head", None)
        project = self.network.model.embed_tokens.as_linear if head is None else head
        logits: mx.array = project(hidden)
        return logits

    def _run_bidirectional(self, ids: mx.array, lengths: mx.array | None) -> mx.array:
        inner = self.network.model
        rows, width = ids.shape
        x = inner.embed_tokens(ids)
        x = x * mx.array(inner.args.hidden_size**0.5).astype(x.dtype)
        whole = None if lengths is None else padding_mask(lengths, width)
        # Source: transformers' Gemma3TextConfig, which halves the window of bidirectional models.
        reach = inner.args.sliding_window // 2
        near = whole
        if width > reach + 1:
            filled = mx.full((rows,), width) if lengths is None else lengths
            near = window_mask(filled, width, reach)
        for layer in inner.layers:
            x = layer(x, near if layer.self_attn.is_sliding else whole)
        hidden: mx.array = inner.norm(x)
        return hidden


def load_decoder(path: Path, config: Mapping[str, Any], *, with_head: bool) -> Decoder:
    """Load a decoder's weights.

    Args:
        with_head: keep the language head, for a reranker.
    """
    module = _MODULES[config["model_type"]]
    dense: dict[str, mx.array] = {}

    class Named(module.Model):  # type: ignore[misc,name-defined] # chosen by family at run time
        """mlx-lm's model, also for checkpoints that hold the inner model alone."""

        def sanitize(self, weights: dict[str, mx.array]) -> dict[str, mx.array]:
            outer = ("model.", "lm_head.")
            dense.update({name: weights[name] for name in weights if name.startswith(_DENSE)})
            named = {
                name if name.startswith(outer) else f"model.{name}": array
                for name, array in weights.items()
                if name not in dense
            }
            if not with_head:
                named.pop("lm_head.weight", None)
            sanitized: dict[str, mx.array] = super().sanitize(named)
            return sanitized

    # A model whose head is tied to the embeddings expects no weights of a head.
    changes = {} if with_head else {"tie_word_embeddings": True}
    network, _ = load_model(
        path,
        model_config=changes,
        get_model_classes=lambda config: (Named, module.ModelArgs),  # noqa: ARG005 - its signature
    )
    both = bool(config.get("use_bidirectional_attention"))
    return Decoder(network, _read_dense(dense, config), is_bidirectional=both)


def _read_dense(arrays: Mapping[str, mx.array], config: Mapping[str, Any]) -> list[mx.array]:
    """Return the dequantised weights of dense layers, in order.

    Source: the layout that mlx-embeddings' converter writes for EmbeddingGemma.
    """
    layers: list[mx.array] = []
    while (weight := arrays.get(f"{_DENSE}{len(layers)}.weight")) is not None:
        name = f"{_DENSE}{len(layers)}"
        if (scales := arrays.get(f"{name}.scales")) is not None:
            how = config["quantization"]
            sizes = {"group_size": how["group_size"], "bits": how["bits"]}
            weight = mx.dequantize(weight, scales, arrays.get(f"{name}.biases"), **sizes)
        layers.append(weight)
    return layers
