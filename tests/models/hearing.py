"""Word errors of a transcript."""

from __future__ import annotations

from collections.abc import Sequence


def words_of(text: str) -> list[str]:
    return "".join(c for c in text.lower() if c.isalnum() or c.isspace()).split()


def errors(heard: Sequence[str], said: Sequence[str]) -> int:
    """Return the word edit distance between a transcript and the text that was spoken."""
    row = list(range(len(said) + 1))
    for i, word in enumerate(heard, 1):
        last, row[0] = row[0], i
        for j, other in enumerate(said, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (word != other))
    return row[-1]
