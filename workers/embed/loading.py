"""Loads a checkpoint into the parts a model is made of, by what the checkpoint is.

Owns which families there are for each kind of worker, and refuses the rest in words. Runs on the
thread that owns the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten

from shared.lifecycle import PermanentError
from shared.settings import EmbedSettings, RerankSettings
from workers.embed import checkpoint as checkpoints
from workers.embed.checkpoint import Checkpoint
from workers.embed.network import weights
from workers.embed.pooling import Dense, Pooler, read_dense
from workers.embed.scorer import CrossEncoder, Scorer, YesNoScorer
from workers.embed.tokenizer import TextTokenizer

Settings = EmbedSettings | RerankSettings
# Token ids, lengths and types to hidden states.
Network = Callable[[mx.array, "mx.array | None", "mx.array | None"], mx.array]
# Hidden states and lengths to one result per row.
Finish = Callable[[mx.array, mx.array], mx.array]

# Families whose layers are mlx-lm's, and how they pool where a checkpoint does not say.
_DECODERS = {"qwen3": "last", "gemma3_text": "mean"}
_ENCODER_POOLING = "mean"


@dataclass(frozen=True)
class EncoderParts:
    """What a checkpoint is made of.

    Attributes:
        judge: of a reranker; its scores are what `finish` gives.
        pooling: of an embedding model.
    """

    checkpoint: Checkpoint
    network: Network
    finish: Finish
    tokenizer: TextTokenizer
    arrays: tuple[mx.array, ...]
    judge: Scorer | None = None
    pooling: str = ""


def load(path: Path, kind: str, settings: Settings, *, full_precision: bool) -> EncoderParts:
    """Load a checkpoint.

    Args:
        kind: "embed" or "rerank".
        full_precision: compute in float32, whatever the checkpoint is stored in.

    Raises:
        PermanentError: it is broken, or not of a kind or family that is known.
    """
    checkpoint = checkpoints.read(path)
    _refuse_kind(checkpoint, kind)
    try:
        if checkpoint.model_type in _DECODERS:
            return _load_decoder(checkpoint, kind, settings, full_precision=full_precision)
        return _load_encoder(checkpoint, kind, settings, full_precision=full_precision)
    # mlx, mlx-lm and safetensors raise whatever they please on a broken file.
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError, OSError) as failure:
        reason = (str(failure).strip().splitlines() or [type(failure).__name__])[0][:300]
        raise PermanentError(f"{path} can't be loaded: {reason}") from failure


def _refuse_kind(checkpoint: Checkpoint, kind: str) -> None:
    family, path = checkpoint.model_type, checkpoint.path
    known = (*weights.FAMILIES, *_DECODERS)
    if family not in known:
        raise PermanentError(f"{path}: model_type {family!r} is not one of {', '.join(known)}")
    if kind == "embed" and checkpoint.is_classifier:
        raise PermanentError(f"{path} is a reranker; use --reranker-model, or kind = 'rerank'")
    if kind == "rerank" and not checkpoint.is_classifier and family != "qwen3":
        raise PermanentError(f"{path} is no reranker; use --embedding-model, or kind = 'embed'")
    if kind == "rerank" and checkpoint.is_classifier and family in _DECODERS:
        raise PermanentError(f"{path}: a classifier of family {family} is not known")


def _load_encoder(
    checkpoint: Checkpoint, kind: str, settings: Settings, *, full_precision: bool
) -> EncoderParts:
    family = weights.FAMILIES[checkpoint.model_type]
    config = checkpoint.config
    network, head = weights.build(
        family, config, weights.read(checkpoint.path), with_head=kind == "rerank"
    )
    modules = [network] if head is None else [network, head]
    arrays = _settle(modules, full_precision=full_precision)
    longest = checkpoints.longest_text(checkpoint, family.positions(config), settings.max_length)
    tokenizer = TextTokenizer(checkpoint, longest)
    if head is not None:
        judge = CrossEncoder(tokenizer, head)
        return EncoderParts(checkpoint, network, judge, tokenizer, arrays, judge)
    layers = read_dense(checkpoint)
    return _with_pooling(checkpoint, network, tokenizer, arrays, settings, layers)


def _load_decoder(
    checkpoint: Checkpoint, kind: str, settings: Settings, *, full_precision: bool
) -> EncoderParts:
    # It takes seconds to import, and only these families need it.
    from workers.embed.network import decoder as decoders

    is_reranker = kind == "rerank"
    decoder = decoders.load(checkpoint.path, checkpoint.config, with_head=is_reranker)
    arrays = _settle([decoder.network], full_precision=full_precision)
    longest = checkpoints.longest_text(checkpoint, None, settings.max_length)
    tokenizer = TextTokenizer(checkpoint, longest)
    if is_reranker:
        judge = YesNoScorer(tokenizer, decoder)
        return EncoderParts(checkpoint, decoder, judge, tokenizer, arrays, judge)
    layers = [Dense(weight) for weight in decoder.dense] or read_dense(checkpoint)
    return _with_pooling(checkpoint, decoder, tokenizer, arrays, settings, layers)


def _with_pooling(
    checkpoint: Checkpoint,
    network: Network,
    tokenizer: TextTokenizer,
    arrays: tuple[mx.array, ...],
    settings: Settings,
    layers: Sequence[Dense],
) -> EncoderParts:
    wanted = settings.pooling if isinstance(settings, EmbedSettings) else ""
    fallback = _DECODERS.get(checkpoint.model_type, _ENCODER_POOLING)
    pooling = wanted or checkpoints.read_pooling(checkpoint) or fallback
    return EncoderParts(
        checkpoint, network, Pooler(pooling, layers), tokenizer, arrays, pooling=pooling
    )


def _settle(modules: Iterable[nn.Module], *, full_precision: bool) -> tuple[mx.array, ...]:
    """Evaluate the parameters, private arrays too, and return them."""
    arrays: list[mx.array] = []
    for module in modules:
        if full_precision and not _is_quantised(module):
            module.set_dtype(mx.float32)
        mx.eval(module.state)
        arrays += [array for _, array in tree_flatten(module.parameters())]
    return tuple(arrays)


def _is_quantised(module: nn.Module) -> bool:
    layers: list[Any] = [layer for _, layer in module.named_modules()]
    return any(isinstance(layer, nn.QuantizedLinear | nn.QuantizedEmbedding) for layer in layers)
