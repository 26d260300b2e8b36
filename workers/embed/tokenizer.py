"""From texts to rows of token ids, cut to what the model takes.

Special tokens, truncation and pairs are the tokenizer's own; padding is the batch's. Runs on the
one tokenizer thread, never on the event loop: a long text takes it tens of milliseconds.
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

# No ordinary text has this many characters per token: what lies beyond can't matter, unless the
# first part turns out to be shorter than the limit.
_CHARACTERS_PER_TOKEN = 64
# What lies beyond is not read even then: blanks without end take minutes, and memory by the
# gigabyte, on the one thread that all texts pass.
_MOST_CHARACTERS = 1024 * 1024
# By the files that name them, in order of precedence.
_PAD_NAMES = ("pad_token", "eos_token")


class TextTokenizer:
    """The tokenizer of one checkpoint.

    Args:
        longest: tokens of the longest row.
    """

    def __init__(self, checkpoint: Checkpoint, longest: int) -> None:
        self.longest = longest
        self._tokenizer = load(checkpoint.path)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(longest)
        self.pad_id = _pad_id(self._tokenizer, checkpoint.read("tokenizer_config.json"))

    def encode(self, texts: Sequence[str]) -> list[Row]:
        """Return a row per text, special tokens included; a long one keeps its last special."""
        clipped = [self._clip(text) for text in texts]
        return [self._row(found) for found in self._tokenizer.encode_batch_fast(clipped)]

    def encode_pairs(self, first: str, others: Sequence[str]) -> list[Row]:
        """Return a row per pair; of one too long, the longer text is cut."""
        head = self._clip(first)
        pairs = [(head, self._clip(other)) for other in others]
        return [self._row(found) for found in self._tokenizer.encode_batch_fast(pairs)]

    def take(self, ids: Sequence[int]) -> Row:
        """Return a row of ids as they are."""
        return Row(np.asarray(ids[: self.longest], np.int32))

    def piece(self, text: str) -> list[int]:
        """Return the ids of a text without special tokens or truncation."""
        self._tokenizer.no_truncation()
        try:
            return list(self._tokenizer.encode(text, add_special_tokens=False).ids)
        finally:
            self._tokenizer.enable_truncation(self.longest)

    def pieces(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of texts without special tokens, cut to the longest row."""
        clipped = [self._clip(text) for text in texts]
        found = self._tokenizer.encode_batch_fast(clipped, add_special_tokens=False)
        return [list(item.ids) for item in found]

    def _clip(self, text: str) -> str:
        """Return as much of a long text as can matter."""
        limit = self.longest * _CHARACTERS_PER_TOKEN
        if len(text) <= limit:
            return text
        head = text[:limit]
        is_enough = len(self._tokenizer.encode_batch_fast([head])[0]) >= self.longest
        return head if is_enough else text[: max(limit, _MOST_CHARACTERS)]

    def _row(self, encoding: Encoding) -> Row:
        if not encoding.ids:
            # A tokenizer without special tokens gives nothing for white space.
            return Row(np.asarray([self.pad_id], np.int32))
        types = np.asarray(encoding.type_ids, np.int32)
        return Row(np.asarray(encoding.ids, np.int32), types if types.any() else None)


def load(path: Path) -> Tokenizer:
    """Return the tokenizer of a folder.

    Raises:
        PermanentError: there is none that can be read.
    """
    try:
        if (path / "tokenizer.json").is_file():
            return Tokenizer.from_file(str(path / "tokenizer.json"))
        # Only older checkpoints need this library, which takes seconds to import.
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(path).backend_tokenizer
    # Both raise whatever they please on a broken file.
    except Exception as failure:
        raise PermanentError(f"{path}: no tokenizer can be read: {failure}") from failure


def _pad_id(tokenizer: Tokenizer, config: dict[str, Any]) -> int:
    for name in _PAD_NAMES:
        token = config.get(name)
        text = token.get("content") if isinstance(token, dict) else token
        found = tokenizer.token_to_id(text) if text else None
        if found is not None:
            return int(found)
    return 0
