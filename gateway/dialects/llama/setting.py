"""Sampling settings under llama-server's names, in responses and in /props.

Owns the names and the constant values of unsupported settings. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from gateway.dialects.llama import wire
from shared.pb import text_pb2 as pb

# What stands for a seed that was drawn.
RANDOM_SEED: Final = 2**64 - 1
# Name → canonical name, in llama-server's order.
NAMES: Final[Mapping[str, str]] = {
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "p_less": "p_less",
    "top_n_sigma": "top_n_sigma",
    "xtc_probability": "xtc_probability",
    "xtc_threshold": "xtc_threshold",
    "typical_p": "typical_p",
    "repeat_last_n": "repetition_context_tokens",
    "repeat_penalty": "repetition_penalty",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "dry_multiplier": "dry_multiplier",
    "dry_base": "dry_base",
    "dry_allowed_length": "dry_allowed_length",
    "dry_penalty_last_n": "dry_penalty_last_n",
}
# Settings that this server does not support.
CONSTANT: Final[Mapping[str, Any]] = {
    "dynatemp_range": 0.0,
    "dynatemp_exponent": 1.0,
    "mirostat": 0,
    "mirostat_tau": 5.0,
    "mirostat_eta": 0.1,
    "adaptive_target": -1.0,
    "adaptive_decay": 0.9,
    "min_keep": 0,
    "chat_format": "Content-only",
    "reasoning_format": "none",
    "reasoning_in_content": False,
    "generation_prompt": "",
    "samplers": wire.SAMPLERS,
    "speculative.types": "none",
    "backend_sampling": False,
    "lora": [],
}


def describe(fields: wire.NativeBody, accepted: pb.Accepted) -> dict[str, Any]:
    """Return the `generation_settings` of an answer."""
    sampling = accepted.sampling
    return {
        "seed": RANDOM_SEED if fields.seed in (None, -1) else fields.seed,
        **{name: _shorten(getattr(sampling, canonical)) for name, canonical in NAMES.items()},
        "dry_sequence_breakers": [*sampling.dry_breakers, *sampling.dry_breaker_ids],
        **CONSTANT,
        "stop": [fields.stop] if isinstance(fields.stop, str) else fields.stop or [],
        "max_tokens": accepted.wanted_tokens,
        "n_predict": accepted.wanted_tokens,
        "n_keep": fields.n_keep or 0,
        "n_discard": fields.n_discard or 0,
        "ignore_eos": bool(fields.ignore_eos),
        "stream": bool(fields.stream),
        "logit_bias": [
            {"bias": _shorten(bias), "token": token} for token, bias in sampling.logit_bias.items()
        ],
        "n_probs": fields.n_probs or fields.logprobs or 0,
        "grammar": fields.grammar or "",
        "grammar_lazy": False,
        "grammar_triggers": [],
        "preserved_tokens": [],
        "timings_per_token": bool(fields.timings_per_token),
        "post_sampling_probs": bool(fields.post_sampling_probs),
    }


def _shorten(value: Any) -> Any:
    """Return a single-precision float rounded to its digits: 0.95, not 0.949999988."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.7g}") if math.isfinite(value) else None
