"""Loads a Whisper checkpoint: mlx-audio's network, with a tokenizer that needs no transformers.

Reads both layouts: OpenAI's names in weights.safetensors or .npz, and those of transformers. Runs
on the model thread.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
from mlx_audio.stt.models.whisper.whisper import Model, ModelDimensions
from tokenizers import Tokenizer

from shared.lifecycle import PermanentError
from workers.arrays import Arrays, read_arrays
from workers.audio import checkpoint
from workers.audio.recognition import attention

_EMBEDDING = "decoder.token_embedding.weight"
_FIRST_TIME = "<|0.00|>"


class WhisperVocabulary:
    """The methods of a transformers tokenizer that mlx-audio calls."""

    def __init__(self, path: Path) -> None:
        self._tokenizer = _read_tokenizer(path)
        self._ids: dict[str, int] = self._tokenizer.get_vocab(with_added_tokens=True)
        # Timestamp tokens follow this one; not every tokenizer.json lists them.
        self._ids.setdefault(_FIRST_TIME, self._ids["<|notimestamps|>"] + 1)
        self.eos_token_id = self.unk_token_id = self._ids["<|endoftext|>"]

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        return self._tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens)

    def convert_tokens_to_ids(self, token: str) -> int:
        return self._ids.get(token, self.unk_token_id)

    def get_vocab(self) -> dict[str, int]:
        return self._ids


def _read_tokenizer(path: Path) -> Tokenizer:
    try:
        return Tokenizer.from_file(str(path))
    # The library raises plain `Exception`.
    except Exception as failure:
        raise ValueError(f"{path.name}: {failure}") from failure


def load_network(path: Path, *, full_precision: bool) -> Model:
    """Return the network in a folder, with its tokenizer.

    Args:
        full_precision: compute in float32.

    Raises:
        PermanentError: it is no Whisper, or incomplete.
    """
    with checkpoint.refuse_broken(path, "Whisper"):
        config = checkpoint.read_config(path)
        if config.get("model_type", "whisper") != "whisper":
            raise PermanentError(f"{path}: a {config['model_type']} model can't transcribe")
        dimensions = ModelDimensions.from_dict(config)
        model = Model(dimensions, mx.float32 if full_precision else mx.float16)
        attention.replace(model.decoder)
        weights = model.sanitize(_read_weights(path))
        checkpoint.quantize(model, config, weights)
        weights.pop("alignment_heads", None)
        model.load_weights(list(weights.items()), strict=True)
        mx.eval(model.parameters())
        _set_alignment(model, path)
        vocabulary = WhisperVocabulary(checkpoint.require(path / "tokenizer.json"))
    # get_tokenizer() looks here, for a transformers processor.
    model._processor = SimpleNamespace(tokenizer=vocabulary)  # noqa: SLF001
    return model


def _read_weights(path: Path) -> Arrays:
    files = sorted(path.glob("*.safetensors")) or [checkpoint.require(path / "weights.npz")]
    weights = read_arrays(files)
    # transformers also stores the output layer, which equals the embedding.
    weights.pop("proj_out.weight", None)
    return weights


def _set_alignment(model: Any, path: Path) -> None:
    """Set the attention heads that words are timed by."""
    file = path / "generation_config.json"
    if file.is_file():
        heads = json.loads(file.read_text(encoding="utf-8")).get("alignment_heads")
        if heads:
            model.set_alignment_heads(heads)
