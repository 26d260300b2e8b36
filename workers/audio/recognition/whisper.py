"""A Whisper checkpoint, loaded: mlx-audio's network with a tokenizer that needs nothing else.

Takes both layouts there are: OpenAI's names in weights.safetensors or .npz, and those of
transformers. Runs on the lane's thread.
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
from workers.audio import checkpoint
from workers.audio.recognition import attention

_EMBEDDING = "decoder.token_embedding.weight"
_FIRST_TIME = "<|0.00|>"


class WhisperVocabulary:
    """What mlx-audio asks of a tokenizer, under the names by which it does."""

    def __init__(self, path: Path) -> None:
        self._tokenizer = _read_tokenizer(path)
        self._ids: dict[str, int] = self._tokenizer.get_vocab(with_added_tokens=True)
        # Tokens of time follow this one; not every tokenizer.json names them.
        self._ids.setdefault(_FIRST_TIME, self._ids["<|notimestamps|>"] + 1)
        self.eos_token_id = self.unk_token_id = self._ids["<|endoftext|>"]

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids
        return ids

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens)
        return text

    def convert_tokens_to_ids(self, token: str) -> int:
        return self._ids.get(token, self.unk_token_id)

    def get_vocab(self) -> dict[str, int]:
        return self._ids


def _read_tokenizer(path: Path) -> Tokenizer:
    try:
        return Tokenizer.from_file(str(path))
    # It raises nothing more particular.
    except Exception as failure:
        raise ValueError(f"{path.name}: {failure}") from failure


def load(path: Path, *, full_precision: bool) -> Model:
    """Return the model in a folder.

    Args:
        full_precision: whether this device multiplies float32 fastest.

    Raises:
        PermanentError: it is no Whisper, or not whole.
    """
    with checkpoint.whole(path, "Whisper"):
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
    # Where get_tokenizer() looks; otherwise a transformers processor is put there.
    model._processor = SimpleNamespace(tokenizer=vocabulary)  # noqa: SLF001
    return model


def _read_weights(path: Path) -> dict[str, mx.array]:
    files = sorted(path.glob("*.safetensors")) or [checkpoint.require(path / "weights.npz")]
    weights = checkpoint.read_weights(files)
    # transformers also stores the output layer, which is the embedding once more.
    weights.pop("proj_out.weight", None)
    return weights


def _set_alignment(model: Any, path: Path) -> None:
    """Tell the model which heads follow the sound, by which words are timed."""
    file = path / "generation_config.json"
    if file.is_file():
        heads = json.loads(file.read_text(encoding="utf-8")).get("alignment_heads")
        if heads:
            model.set_alignment_heads(heads)
