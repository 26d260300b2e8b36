"""From texts to rows of token ids, truncated to the model's length.

Special tokens, truncation and pairs are the tokenizer's; padding is the batch's. Runs on the one
tokenizer thread, since a long text takes tens of milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Encoding, Tokenizer

from shared.lifecycle import PermanentError
from workers.embed.checkpoint import Checkpoint
from workers.embed.row import Row

# No ordinary text has this many characters per token: the rest is only tokenized if the first part
# turns out to be shorter than the limit.
_CHARACTERS_PER_TOKEN = 64
# The rest is not tokenized even then: very long white space takes minutes, and gigabytes of memory,
# on the one thread for all texts.
_MOST_CHARACTERS = 1024 * 1024
# Keys of tokenizer_config.json, in order of precedence.
_PAD_NAMES = ("pad_token", "eos_token")


class TextTokenizer:
    """The tokenizer of one checkpoint.

    Args:
        longest: tokens of the longest row.
    """

    def __init__(self, checkpoint: Checkpoint, longest: int) -> None:
        self.longest = longest
        self._tokenizer = _load(checkpoint.path)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(longest)
        self.pad_id = _pad_id(self._tokenizer, checkpoint.read("tokenizer_config.json"))

    def encode(self, texts: Sequence[str]) -> list[Row]:
        """Return a row per text, with special tokens, also at the end of a truncated one."""
        clipped = [self._clip(text) for text in texts]
        return [self._row(found) for found in self._tokenizer.encode_batch_fast(clipped)]

    def encode_pairs(self, first: str, others: Sequence[str]) -> list[Row]:
        """Return a row per pair; the longer text of a pair is truncated."""
        head = self._clip(first)
        pairs = [(head, self._clip(other)) for other in others]
        return [self._row(found) for found in self._tokenizer.encode_batch_fast(pairs)]

    def make_row(self, ids: Sequence[int]) -> Row:
        """Return a row of given ids, truncated."""
        return Row(np.asarray(ids[: self.longest], np.int32))

    def encode_plain(self, text: str) -> list[int]:
        """Return the ids of a text without special tokens or truncation."""
        self._tokenizer.no_truncation()
        try:
            return list(self._tokenizer.encode(text, add_special_tokens=False).ids)
        finally:
            self._tokenizer.enable_truncation(self.longest)

    def encode_truncated(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of texts without special tokens, truncated to the longest row."""
        clipped = [self._clip(text) for text in texts]
        found = self._tokenizer.encode_batch_fast(clipped, add_special_tokens=False)
        return [list(item.ids) for item in found]

    def _clip(self, text: str) -> str:
        """Return the part of a long text that can be within the limit."""
        limit = self.longest * _CHARACTERS_PER_TOKEN
        if len(text) <= limit:
            return text
        head = text[:limit]
        is_enough = len(self._tokenizer.encode_batch_fast([head])[0]) >= self.longest
        return head if is_enough else text[: max(limit, _MOST_CHARACTERS)]

    def _row(self, encoding: Encoding) -> Row:
        if not encoding.ids:
            # White space has no tokens if the tokenizer adds no special ones.
            return Row(np.asarray([self.pad_id], np.int32))
        types = np.asarray(encoding.type_ids, np.int32)
        return Row(np.asarray(encoding.ids, np.int32), types if types.any() else None)


def _load(path: Path) -> Tokenizer:
    """Return the tokenizer of a folder.

    Raises:
        PermanentError: it can't be read.
    """
    try:
        if (path / "tokenizer.json").is_file():
            return Tokenizer.from_file(str(path / "tokenizer.json"))
        # Only older checkpoints need this library, whose import takes seconds.
        from transformers import AutoTokenizer

        tokenizer: Tokenizer = AutoTokenizer.from_pretrained(path).backend_tokenizer
        return tokenizer
    # Both libraries raise many kinds of exceptions for a broken file.
    except Exception as failure:
        raise PermanentError(f"{path}: the tokenizer can't be read: {failure}") from failure


def _pad_id(tokenizer: Tokenizer, config: dict[str, Any]) -> int:
    for name in _PAD_NAMES:
        token = config.get(name)
        text = token.get("content") if isinstance(token, dict) else token
        found = tokenizer.token_to_id(text) if text else None
        if found is not None:
            return int(found)
    return 0
