"""The loaded model: weights, tokenizer, and what both say about themselves.

Owns loading a checkpoint through mlx-lm, and the forward pass; the card that tells of it is
ready.py's. Loaded and run on the engine thread; the tokenizer side is used by the render thread.
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

# Families say nothing about their context: assume what most small models were trained for.
_UNKNOWN_CONTEXT_TOKENS = 4096
# Rows of the step by which the number of threads is chosen.
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
        footprint: what a sequence's keys and values take.
        think_tags: what mlx-lm infers from the vocabulary that the model thinks between.
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
        return self.network(tokens, cache=cache)[:, -1]


def load(path: Path, settings: TextSettings) -> TextModel:
    """Load weights and tokenizer, and run the model once.

    Raises:
        PermanentError: the checkpoint is broken or of a family mlx-lm does not know.
    """
    started_s = time.monotonic()
    network, config, wrapper = _read(path)
    _narrow_head(network)
    # Private arrays (rotary frequencies, say) are not parameters: evaluate them here, too.
    mx.eval(network.state)
    # The wrapper is mlx-lm's; what it wraps is the tokenizer itself.
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
        # A sliding window or a recurrent state would take the padding in.
        pads=all(type(part) is KVCache for part in new_cache()),
        context_tokens=_context_tokens(config),
        weight_bytes=sum(array.nbytes for _, array in tree_flatten(network.parameters())),
        footprint=footprint,
        new_cache=new_cache,
        think_tags=(wrapper.think_start, wrapper.think_end) if wrapper.has_thinking else None,
    )


def _read(path: Path) -> tuple[Any, dict[str, Any], TokenizerWrapper]:
    """Return network, configuration and tokenizer of a checkpoint.

    Raises:
        PermanentError: as for `load`.
    """
    try:
        network, config = load_model(path)
        wrapper = load_tokenizer(path, eos_token_ids=config.get("eos_token_id"))
    # mlx-lm, safetensors and transformers raise whatever they please on a broken file.
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
    """Run the network once and return what a cache takes.

    Raises:
        PermanentError: it can't run, whatever else happens.
    """
    try:
        return _warm_up(network, new_cache)
    # Shapes that don't go together, such as heads that --kv-group-size does not divide. A fault
    # of the device is a RuntimeError, and may be gone at the next start.
    except ValueError as failure:
        option = f" with --kv-bits {settings.kv_bits}" if settings.kv_bits else ""
        reason = str(failure).strip().splitlines()[0][:300]
        raise PermanentError(f"{path} can't be run{option}: {reason}") from failure


def _warm_up(network: Any, new_cache: Callable[[], list[Any]]) -> Footprint:
    """Run the network once, so that kernels are compiled before the first request.

    Raises:
        PermanentError: it gives no finite number; serving it would give garbage.
    """
    cache = new_cache()
    logits = network(mx.array([[1, 2, 3, 4]]), cache=cache)[:, -1]
    footprint = measure(cache)
    if all(hasattr(part, "merge") for part in cache):
        cache = [part.merge([part]) for part in cache]
    logits = network(mx.argmax(logits, axis=-1)[:, None], cache=cache)
    if not bool(mx.all(mx.isfinite(logits)).item()):
        raise PermanentError("the model gives no finite numbers; the checkpoint is broken")
    return footprint


def _settle_threads(network: Any, new_cache: Callable[[], list[Any]], rows: int) -> None:
    """Let the machine choose its threads by a decode step of a few rows."""

    def step() -> None:
        mx.eval(network(mx.array([[1]] * rows), cache=new_cache()))

    threads = runtime.settle_threads(step)
    if threads is not None:
        log.info("matrix products use %d of %d processors", threads, os.cpu_count() or 1)


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
    """Make the output head look at the last position alone, where we recognise it.

    Nobody reads the logits of a prompt's inner positions; for a chunk of 512 tokens and a
    vocabulary of 150,000 they would be a quarter of the work and 300 MB. Other families compute
    every position, and `TextModel.forward` takes the last: slower, not wrong.
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
    """Give one layer a class of its own whose `method` sees the last position only."""
    kind = type(layer)
    whole = getattr(kind, method)

    def last(self: nn.Module, hidden: mx.array) -> mx.array:
        return whole(self, hidden[:, -1:])

    layer.__class__ = type(f"LastPosition{kind.__name__}", (kind,), {method: last})
