"""Tries grammars out: a limit that shows only after some tokens is found before a request runs.

Owns random walks through a matcher; they are the same for the same grammar. A walk also fills the
lexer's cache, which copies of the matcher share. Runs on the render thread.
"""

from __future__ import annotations

import random

import numpy as np
from llguidance import LLMatcher, LLTokenizer

_WALKS = 3
_STEPS = 24
_STRUCTURE = frozenset(b'"{}[],:')


class Prober:
    """Walks through grammars over one vocabulary."""

    def __init__(self, tokenizer: LLTokenizer) -> None:
        texts = [tokenizer.decode_bytes([token]) for token in range(tokenizer.vocab_size)]
        # Tokens that begin or end a part of a value.
        self._is_structure = np.array([not _STRUCTURE.isdisjoint(text) for text in texts])

    def try_out(self, matcher: LLMatcher) -> None:
        """Walk from the start of a grammar, and return there unless the matcher has failed."""
        rng = random.Random(0)
        for walk in range(_WALKS):
            for _ in range(_STEPS):
                allowed = _allowed(matcher)
                # Every other walk leaves strings soon, to see more of the grammar.
                ends = allowed[self._is_structure[allowed]]
                chosen = ends if walk % 2 and len(ends) else allowed
                if not len(chosen) or not matcher.consume_token(int(rng.choice(chosen))):
                    break
            if matcher.is_error():
                return
            matcher.reset()


def _allowed(matcher: LLMatcher) -> np.ndarray:
    bits = np.frombuffer(matcher.compute_bitmask(), np.uint8)
    return np.flatnonzero(np.unpackbits(bits, bitorder="little"))
