"""Rebuilds a Hugging Face tokenizer from the vocabulary in a GGUF file.

Supports byte-level BPE with SmolLM's pre-tokenizer and refuses every other kind, since a nearly
right tokenizer gives wrong text without an error. Pure except for two files that it writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

_PREFIX: Final = "tokenizer.ggml."
# gguf-py, constants.py, TokenType.CONTROL.
_CONTROL: Final = 3
_NAMED: Final = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "pad_token": "padding_token_id",
    "unk_token": "unknown_token_id",
}


class TokenizerError(Exception):
    """The vocabulary is of a kind that this module does not support."""


def write(metadata: Mapping[str, Any], folder: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json.

    Raises:
        TokenizerError: not SmolLM's kind of vocabulary.
    """
    kind = (metadata.get(f"{_PREFIX}model"), metadata.get(f"{_PREFIX}pre"))
    if kind != ("gpt2", "smollm"):
        raise TokenizerError(f"cannot rebuild a tokenizer of kind {kind}")
    build(metadata).save(str(folder / "tokenizer.json"))
    text = json.dumps(configure(metadata), indent=1, ensure_ascii=False)
    (folder / "tokenizer_config.json").write_text(text + "\n", encoding="utf-8")


def build(metadata: Mapping[str, Any]) -> Tokenizer:
    """Return the tokenizer.

    Source: llama.cpp, llama-vocab.cpp, LLAMA_VOCAB_PRE_TYPE_SMOLLM: digits one by one, then
    GPT-2's expression.
    """
    tokens = metadata[f"{_PREFIX}tokens"]
    merges = [tuple(pair.split(" ")) for pair in metadata[f"{_PREFIX}merges"]]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, fuse_unk=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [AddedToken(token, special=True, normalized=False) for token in control(metadata)]
    tokenizer.add_special_tokens(special)
    return tokenizer


def control(metadata: Mapping[str, Any]) -> list[str]:
    """Return the control tokens, which stand for no text."""
    types = metadata[f"{_PREFIX}token_type"].tolist()
    tokens = metadata[f"{_PREFIX}tokens"]
    return [token for token, kind in zip(tokens, types, strict=True) if kind == _CONTROL]


def configure(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return tokenizer_config.json, with the chat template."""
    tokens = metadata[f"{_PREFIX}tokens"]
    named = {
        name: tokens[metadata[_PREFIX + key].item()]
        for name, key in _NAMED.items()
        if _PREFIX + key in metadata
    }
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": metadata["llama.context_length"].item(),
        "clean_up_tokenization_spaces": False,
        **named,
        "additional_special_tokens": control(metadata),
        "chat_template": metadata["tokenizer.chat_template"],
    }
