"""The loaded model: network, tokenizer, and their properties.

Owns loading a checkpoint through mlx-lm, and the forward pass; the model card is ready.py's.
Loaded and run on the engine thread; the tokenizer is used by the render thread.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.models.cache import KVCache, make_prompt_cache
from mlx_lm.tokenizer_utils import TokenizerWrapper
from mlx_lm.utils import load_model, load_tokenizer

from shared.lifecycle import PermanentError
from shared.settings import TextSettings
from workers import runtime
from workers.text.cache.footprint import Footprint, measure
from workers.text.vocabulary import Vocabulary

log = logging.getLogger(__name__)

# For checkpoints that do not give their context: what most small models were trained for.
_UNKNOWN_CONTEXT_TOKENS = 4096
# Rows of the decode step by which the number of threads is chosen.
_USUAL_ROWS = 8


@dataclass(frozen=True)
class TextModel:
    """A checkpoint that is ready to run.

    Attributes:
        tokenizer: transformers' own object.
        end_ids: tokens that end a completion.
        keep_ids: tokens XTC must not remove: those that end a line or a completion.
        batches: whether rows can share one cache; a family without it runs one row at a time.
        pads: whether prompts of different lengths can be fed in one pass.
        context_tokens: what the checkpoint was trained for.
        footprint: memory of a sequence's keys and values.
        think_tags: tags of reasoning that mlx-lm finds in the vocabulary.
        new_cache: makes the empty cache of one row.
    """

    path: Path
    network: Any
    tokenizer: Any
    config: dict[str, Any]
    vocabulary: Vocabulary
    vocab_tokens: int
    end_ids: frozenset[int]
    keep_ids: tuple[int, ...]
    batches: bool
    pads: bool
    context_tokens: int
    weight_bytes: int
    footprint: Footprint
    new_cache: Callable[[], list[Any]]
    think_tags: tuple[str, str] | None = None

    def forward(self, tokens: mx.array, cache: list[Any]) -> mx.array:
        """Return the logits of each row's last position, lazily; the cache grows.

        Args:
            tokens: int [rows, length].

        Shape: [rows, vocabulary].
        """
        logits: mx.array = self.network(tokens, cache=cache)
        return logits[:, -1]


def load_text_model(path: Path, settings: TextSettings) -> TextModel:
    """Load weights and tokenizer, and run the model once.

    Raises:
        PermanentError: the checkpoint is broken or of a family mlx-lm does not know.
    """
    started_s = time.monotonic()
    network, config, wrapper = _read(path)
    _narrow_head(network)
    # Private arrays (rotary frequencies, say) are not parameters: evaluate them here, too.
    mx.eval(network.state)
    # mlx-lm wraps the tokenizer and has no public name for it.
    tokenizer = wrapper._tokenizer  # noqa: SLF001
    vocab_tokens = _vocab_tokens(config, tokenizer)
    vocabulary = Vocabulary(tokenizer, vocab_tokens)
    end_ids = frozenset(int(token) for token in wrapper.eos_token_ids)
    new_cache = partial(_new_cache, network, settings)
    footprint = _try_out(path, network, new_cache, settings)
    batches = all(hasattr(part, "merge") for part in new_cache())
    _settle_threads(network, new_cache, min(_USUAL_ROWS, settings.parallel) if batches else 1)
    newlines = [index for index, piece in enumerate(vocabulary.pieces) if piece == b"\n"]
    log.info("loaded %s in %.1f s", path.name, time.monotonic() - started_s)
    return TextModel(
        path=path,
        network=network,
        tokenizer=tokenizer,
        config=config,
        vocabulary=vocabulary,
        vocab_tokens=vocab_tokens,
        end_ids=end_ids,
        keep_ids=(*newlines, *sorted(end_ids)),
        batches=batches,
        # A sliding window or a recurrent state would store the padding.
        pads=all(type(part) is KVCache for part in new_cache()),
        context_tokens=_context_tokens(config),
        weight_bytes=_count_bytes(network),
        footprint=footprint,
        new_cache=new_cache,
        think_tags=(wrapper.think_start, wrapper.think_end) if wrapper.has_thinking else None,
    )


def _read(path: Path) -> tuple[Any, dict[str, Any], TokenizerWrapper]:
    """Return network, configuration and tokenizer of a checkpoint.

    Raises:
        PermanentError: as for `load_text_model`.
    """
    try:
        network, config = load_model(path)
        wrapper = load_tokenizer(path, eos_token_ids=config.get("eos_token_id"))
    # mlx-lm, safetensors and transformers raise many types on a broken file.
    except Exception as failure:
        reason = (str(failure).strip().splitlines() or [type(failure).__name__])[0][:300]
        raise PermanentError(f"{path} can't be loaded: {reason}") from failure
    return network, config, wrapper


def _new_cache(network: Any, settings: TextSettings) -> list[Any]:
    """Return the empty cache of one row, quantised if the settings say so."""
    cache = make_prompt_cache(network)
    if not settings.kv_bits:
        return cache
    size, bits = settings.kv_group_size, settings.kv_bits
    return [part.to_quantized(size, bits) if type(part) is KVCache else part for part in cache]


def _try_out(
    path: Path, network: Any, new_cache: Callable[[], list[Any]], settings: TextSettings
) -> Footprint:
    """Run the network once and return the footprint of its cache.

    Raises:
        PermanentError: it can't run, and will not at the next start.
    """
    try:
        return _warm_up(network, new_cache)
    # Shapes that do not match, such as heads that --kv-group-size does not divide. A fault of the
    # device is a RuntimeError, and may be gone at the next start.
    except ValueError as failure:
        option = f" with --kv-bits {settings.kv_bits}" if settings.kv_bits else ""
        reason = str(failure).strip().splitlines()[0][:300]
        raise PermanentError(f"{path} can't be run{option}: {reason}") from failure


def _warm_up(network: Any, new_cache: Callable[[], list[Any]]) -> Footprint:
    """Run the network once, so that kernels are compiled before the first request.

    Raises:
        PermanentError: its logits are not finite.
    """
    cache = new_cache()
    logits = network(mx.array([[1, 2, 3, 4]]), cache=cache)[:, -1]
    footprint = measure(cache)
    if all(hasattr(part, "merge") for part in cache):
        cache = [part.merge([part]) for part in cache]
    logits = network(mx.argmax(logits, axis=-1)[:, None], cache=cache)
    if not bool(mx.all(mx.isfinite(logits)).item()):
        raise PermanentError("the logits of the model are not finite: the checkpoint is broken")
    return footprint


def _settle_threads(network: Any, new_cache: Callable[[], list[Any]], rows: int) -> None:
    """Choose the number of threads by measuring a decode step of a few rows."""

    def step() -> None:
        mx.eval(network(mx.array([[1]] * rows), cache=new_cache()))

    threads = runtime.settle_threads(step)
    if threads is not None:
        log.info("matrix products use %d of %d processors", threads, os.cpu_count() or 1)


def _count_bytes(network: Any) -> int:
    arrays: Any = tree_flatten(network.parameters())
    return sum(array.nbytes for _, array in arrays)


def _vocab_tokens(config: dict[str, Any], tokenizer: Any) -> int:
    """Return the columns of the logits: the head may be padded beyond the tokenizer."""
    text = config.get("text_config", config)
    return int(text.get("vocab_size") or config.get("vocab_size") or len(tokenizer))


def _context_tokens(config: dict[str, Any]) -> int:
    text = {**config, **config.get("text_config", {})}
    for key in ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"):
        if isinstance(text.get(key), int) and text[key] > 0:
            return int(text[key])
    return _UNKNOWN_CONTEXT_TOKENS


def _narrow_head(network: Any) -> None:
    """Make the output head compute the last position only, in families whose head is found.

    The logits of the other positions are not used; for a chunk of 512 tokens and a vocabulary of
    150,000 they would be a quarter of the work and 300 MB. Other families compute every position,
    and `TextModel.forward` takes the last.
    """
    language = getattr(network, "language_model", network)
    head = getattr(language, "lm_head", None)
    if isinstance(head, nn.Module):
        _narrow(head, "__call__")
        return
    embedding = getattr(getattr(language, "model", None), "embed_tokens", None)
    if isinstance(embedding, nn.Embedding | nn.QuantizedEmbedding):
        _narrow(embedding, "as_linear")


def _narrow(layer: nn.Module, method: str) -> None:
    """Replace the class of one layer by one whose `method` gets the last position only."""
    kind = type(layer)
    whole = getattr(kind, method)

    def last(self: nn.Module, hidden: mx.array) -> mx.array:
        logits: mx.array = whole(self, hidden[:, -1:])
        return logits

    layer.__class__ = type(f"LastPosition{kind.__name__}", (kind,), {method: last})
