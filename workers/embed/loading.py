"""Loads a checkpoint into the parts of a model.

Owns which families each kind of worker supports, and refuses the others with a reason. Runs on the
model thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn

from shared.lifecycle import PermanentError
from shared.settings import EmbedSettings, RerankSettings
from workers.arrays import read_parameters
from workers.embed.checkpoint import Checkpoint, longest_text, read_checkpoint, read_pooling
from workers.embed.network.family import FAMILIES, build_encoder, read_weights
from workers.embed.network.module import Encoder, PerRow
from workers.embed.pooling import Dense, Pooler, read_dense
from workers.embed.scorer import CrossEncoder, Scorer, YesNoScorer
from workers.embed.tokenizer import TextTokenizer

Settings = EmbedSettings | RerankSettings

# Families whose layers are mlx-lm's → their pooling if a checkpoint states none.
_DECODERS = {"qwen3": "last", "gemma3_text": "mean"}
_ENCODER_POOLING = "mean"


@dataclass(frozen=True)
class EncoderParts:
    """The parts of a loaded model.

    Attributes:
        finish: turns hidden states into a vector or a score per row.
        scorer: of a reranker, where it is `finish`, too.
        pooling: of an embedding model.
    """

    checkpoint: Checkpoint
    network: Encoder
    finish: PerRow
    tokenizer: TextTokenizer
    arrays: tuple[mx.array, ...]
    scorer: Scorer | None = None
    pooling: str = ""


def load_parts(path: Path, kind: str, settings: Settings, *, full_precision: bool) -> EncoderParts:
    """Load a checkpoint.

    Args:
        kind: "embed" or "rerank".
        full_precision: compute in float32, whatever the checkpoint's type.

    Raises:
        PermanentError: it is broken, or its kind or family is not supported.
    """
    checkpoint = read_checkpoint(path)
    _refuse_kind(checkpoint, kind)
    try:
        if checkpoint.model_type in _DECODERS:
            return _load_decoder(checkpoint, kind, settings, full_precision=full_precision)
        return _load_encoder(checkpoint, kind, settings, full_precision=full_precision)
    # mlx, mlx-lm and safetensors raise these for a broken file.
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError, OSError) as failure:
        reason = (str(failure).strip().splitlines() or [type(failure).__name__])[0][:300]
        raise PermanentError(f"{path} can't be loaded: {reason}") from failure


def _refuse_kind(checkpoint: Checkpoint, kind: str) -> None:
    family, path = checkpoint.model_type, checkpoint.path
    known = (*FAMILIES, *_DECODERS)
    if family not in known:
        raise PermanentError(f"{path}: model_type {family!r} is not one of {', '.join(known)}")
    if kind == "embed" and checkpoint.is_classifier:
        raise PermanentError(f"{path} is a reranker; use --reranker-model, or kind = 'rerank'")
    if kind == "rerank" and not checkpoint.is_classifier and family != "qwen3":
        raise PermanentError(f"{path} is not a reranker; use --embedding-model, or kind = 'embed'")
    if kind == "rerank" and checkpoint.is_classifier and family in _DECODERS:
        raise PermanentError(f"{path}: a classifier of family {family} is not supported")


def _load_encoder(
    checkpoint: Checkpoint, kind: str, settings: Settings, *, full_precision: bool
) -> EncoderParts:
    family = FAMILIES[checkpoint.model_type]
    config = checkpoint.config
    network, head = build_encoder(
        family, config, read_weights(checkpoint.path), with_head=kind == "rerank"
    )
    modules = [network] if head is None else [network, head]
    arrays = _evaluate(modules, full_precision=full_precision)
    longest = longest_text(checkpoint, family.positions(config), settings.max_length)
    tokenizer = TextTokenizer(checkpoint, longest)
    if head is not None:
        scorer = CrossEncoder(tokenizer, head)
        return EncoderParts(checkpoint, network, scorer, tokenizer, arrays, scorer)
    layers = read_dense(checkpoint)
    return _with_pooling(checkpoint, network, tokenizer, arrays, settings, layers)


def _load_decoder(
    checkpoint: Checkpoint, kind: str, settings: Settings, *, full_precision: bool
) -> EncoderParts:
    # Its import takes seconds, and only these families need it.
    from workers.embed.network.decoder import load_decoder

    is_reranker = kind == "rerank"
    decoder = load_decoder(checkpoint.path, checkpoint.config, with_head=is_reranker)
    arrays = _evaluate([decoder.network], full_precision=full_precision)
    longest = longest_text(checkpoint, None, settings.max_length)
    tokenizer = TextTokenizer(checkpoint, longest)
    if is_reranker:
        scorer = YesNoScorer(tokenizer, decoder.read_logits)
        return EncoderParts(checkpoint, decoder, scorer, tokenizer, arrays, scorer)
    layers = [Dense(weight) for weight in decoder.dense] or read_dense(checkpoint)
    return _with_pooling(checkpoint, decoder, tokenizer, arrays, settings, layers)


def _with_pooling(
    checkpoint: Checkpoint,
    network: Encoder,
    tokenizer: TextTokenizer,
    arrays: tuple[mx.array, ...],
    settings: Settings,
    layers: Sequence[Dense],
) -> EncoderParts:
    wanted = settings.pooling if isinstance(settings, EmbedSettings) else ""
    fallback = _DECODERS.get(checkpoint.model_type, _ENCODER_POOLING)
    pooling = wanted or read_pooling(checkpoint) or fallback
    return EncoderParts(
        checkpoint, network, Pooler(pooling, layers), tokenizer, arrays, pooling=pooling
    )


def _evaluate(modules: Iterable[nn.Module], *, full_precision: bool) -> tuple[mx.array, ...]:
    """Evaluate all arrays of modules, and return the parameters."""
    arrays: list[mx.array] = []
    for module in modules:
        if full_precision and not _is_quantised(module):
            module.set_dtype(mx.float32)
        mx.eval(module.state)
        arrays += read_parameters(module).values()
    return tuple(arrays)


def _is_quantised(module: nn.Module) -> bool:
    layers: list[Any] = [layer for _, layer in module.named_modules()]
    return any(isinstance(layer, nn.QuantizedLinear | nn.QuantizedEmbedding) for layer in layers)
