"""Prompts and settings for tests that compare texts; the same on every machine."""

from __future__ import annotations

import random
from typing import Any, Final

_WORDS: Final = (
    "river",
    "stone",
    "green lamp",
    "quiet",
    "engine",
    "window",
    "seven",
    "morning",
    "salt",
)

# Settings that cover every rule a row of the batch may have.
MIX: Final[tuple[dict[str, Any], ...]] = (
    {"temperature": 0},
    {"temperature": 0.8, "seed": 1},
    {"temperature": 1.2, "seed": 2, "top_k": 40, "top_p": 0.9, "min_p": 0.02},
    {"temperature": 0, "repetition_penalty": 1.3, "presence_penalty": 0.5, "logit_bias": {"7": 3}},
    {"temperature": 0.9, "seed": 3, "logprobs": True, "top_logprobs": 3},
    {"temperature": 0.7, "seed": 4, "dry_multiplier": 0.8, "dry_allowed_length": 1},
    {"temperature": 1.0, "seed": 5, "xtc_probability": 0.6, "xtc_threshold": 0.1, "top_k": 0},
    {"temperature": 0.9, "seed": 6, "typical_p": 0.9, "frequency_penalty": 0.4, "stop": ["zzzz"]},
)


def make_prompt(number: int, words: int | None = None) -> str:
    """Return a prompt that shares no prefix with those of other numbers.

    Args:
        words: number of words; by default 5 to 60.
    """
    rng = random.Random(number)
    count = words or rng.randint(5, 60)
    return f"{number} " + " ".join(rng.choice(_WORDS) for _ in range(count))
