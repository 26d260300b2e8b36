"""Generation fields that several dialects share: names, ranges and canonical form.

Owns the range of every sampling field; workers get valid values only and apply them. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from gateway.dialects.base import Stamp
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb

_INT32_MAX: Final = 2**31 - 1
_UINT32_MAX: Final = 2**32 - 1
_UINT64_MAX: Final = 2**64 - 1
_FLOAT32_MAX: Final = 3.4e38
# Each step reads all biases; each text is searched for in every token of the vocabulary.
_MAX_BIASES: Final = 8192
_MAX_BREAKERS: Final = 8192
_MAX_BREAKER_TEXTS: Final = 64


class SamplingFields(msgspec.Struct):
    """Sampling fields of a body. Null is the same as absent."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    p_less: bool | None = None
    typical_p: float | None = None
    top_n_sigma: float | None = None
    repetition_penalty: float | None = None
    repeat_penalty: float | None = None
    repetition_context_size: int | None = None
    repeat_last_n: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    dry_multiplier: float | None = None
    dry_base: float | None = None
    dry_allowed_length: int | None = None
    dry_penalty_last_n: int | None = None
    dry_sequence_breakers: list[int | str] | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    max_pattern_size: int | None = None
    min_pattern_size: int | None = None
    min_count: int | None = None
    logit_bias: dict[str, float | bool] | list[tuple[int, float | bool]] | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    ignore_eos: bool | None = None
    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    n_predict: int | None = None
    thinking_budget_tokens: int | None = None
    reasoning_budget_tokens: int | None = None
    thinking_token_budget: int | None = None
    thinking_budget: int | None = None


Check = Callable[[float], bool]

# Field → check and message. The messages of typical_p, top_n_sigma and the XTC fields are the
# reference's. JSON has no NaN and no infinity.
RANGES: Final[dict[str, tuple[Check, str]]] = {
    "temperature": (lambda v: v >= 0, "must be >= 0.0"),
    "top_p": (lambda v: 0 <= v <= 1, "must be between 0.0 and 1.0"),
    "top_k": (lambda v: v >= -1, "must be >= 0"),
    "min_p": (lambda v: 0 <= v <= 1, "must be between 0.0 and 1.0"),
    "typical_p": (lambda v: 0 < v <= 1, "must be in (0.0, 1.0]"),
    "top_n_sigma": (lambda v: v >= 0, "must be >= 0.0"),
    "repetition_penalty": (lambda v: v > 0, "must be > 0.0"),
    "repeat_penalty": (lambda v: v > 0, "must be > 0.0"),
    "repetition_context_size": (lambda v: v >= 0, "must be >= 0"),
    "repeat_last_n": (lambda v: v >= 0, "must be >= 0"),
    "frequency_penalty": (lambda _: True, ""),
    "presence_penalty": (lambda _: True, ""),
    "dry_multiplier": (lambda v: v >= 0, "must be >= 0.0"),
    "dry_base": (lambda v: v > 0, "must be > 0.0"),
    "dry_allowed_length": (lambda v: v >= 0, "must be >= 0"),
    "dry_penalty_last_n": (lambda v: v >= -1, "must be >= 0"),
    "xtc_probability": (lambda v: 0 <= v <= 1, "must be between 0.0 and 1.0"),
    "xtc_threshold": (lambda v: 0 <= v <= 0.5, "must be between 0.0 and 0.5"),
    "max_pattern_size": (lambda v: v >= 0, "must be >= 0"),
    "min_pattern_size": (lambda v: v >= 0, "must be >= 0"),
    "min_count": (lambda v: v >= 0, "must be >= 0"),
    "max_completion_tokens": (lambda v: v == -1 or v >= 1, "must be >= 1, or -1 for no limit"),
    "max_tokens": (lambda v: v == -1 or v >= 1, "must be >= 1, or -1 for no limit"),
    "n_predict": (lambda v: v == -1 or v >= 1, "must be >= 1, or -1 for no limit"),
    "thinking_budget_tokens": (lambda v: v >= -1, "must be >= -1"),
    "reasoning_budget_tokens": (lambda v: v >= -1, "must be >= -1"),
    "thinking_token_budget": (lambda v: v >= -1, "must be >= -1"),
    "thinking_budget": (lambda v: v >= -1, "must be >= -1"),
}

_MAX_TOKENS_NAMES: Final = ("max_completion_tokens", "max_tokens", "n_predict")
_BUDGET_NAMES: Final = (
    "thinking_budget_tokens",
    "reasoning_budget_tokens",
    "thinking_token_budget",
    "thinking_budget",
)
# Same name in the canonical form.
_FLOATS: Final = (
    "temperature",
    "top_p",
    "min_p",
    "typical_p",
    "top_n_sigma",
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
    "dry_multiplier",
    "dry_base",
    "xtc_probability",
    "xtc_threshold",
)
# Field → canonical name. llama-server's -1 for "no limit" becomes 0.
_INTS: Final = {
    "repetition_context_size": "repetition_context_tokens",
    "dry_allowed_length": "dry_allowed_length",
    "top_k": "top_k",
    "dry_penalty_last_n": "dry_penalty_last_n",
}
# Alias → name, which takes precedence.
_ALIASES: Final = {
    "repeat_penalty": "repetition_penalty",
    "repeat_last_n": "repetition_context_size",
}


def invalid(field: str, sentence: str) -> ServiceError:
    """Return the error for one field; the message starts with its name."""
    return ServiceError("invalid_request", f"{field} {sentence}", field)


def check_ranges(given: Mapping[str, Any]) -> None:
    """Refuse the first value that is out of range.

    Args:
        given: fields that are neither absent nor null.

    Raises:
        ServiceError: naming the field.
    """
    for name, value in given.items():
        if name not in RANGES:
            continue
        holds, sentence = RANGES[name]
        if abs(value) > _FLOAT32_MAX:
            raise invalid(name, "is out of range")
        if not holds(value):
            raise invalid(name, sentence)


def parse_sampling(fields: SamplingFields, stamp: Stamp) -> pb.Sampling:
    """Return the sampling settings; fields that are absent stay unset.

    Raises:
        ServiceError: a value is out of range.
    """
    given = {n: v for n, v in msgspec.structs.asdict(fields).items() if v is not None}
    check_ranges(given)
    for alias, name in _ALIASES.items():
        if alias in given:
            given.setdefault(name, given[alias])
    sampling = pb.Sampling(p_less=fields.p_less, seed=_parse_seed(fields.seed, stamp))
    for name in _FLOATS:
        if name in given:
            setattr(sampling, name, given[name])
    for name, canonical in _INTS.items():
        if name in given:
            setattr(sampling, canonical, min(max(given[name], 0), _INT32_MAX))
    _parse_breakers(fields, sampling)
    _parse_bias(fields, sampling)
    sizes = (fields.max_pattern_size, fields.min_pattern_size, fields.min_count)
    if any(size is not None for size in sizes):
        most, least, count = (min(size or 0, _UINT32_MAX) for size in sizes)
        sampling.loop_detection.CopyFrom(
            pb.LoopDetection(max_pattern_size=most, min_pattern_size=least, min_count=count)
        )
    return sampling


def parse_stop(fields: SamplingFields) -> pb.Stop:
    """Return the stop conditions. Empty strings, which match everywhere, are left out."""
    strings = [fields.stop] if isinstance(fields.stop, str) else fields.stop or []
    return pb.Stop(strings=filter(None, strings), ignore_eos=bool(fields.ignore_eos))


def parse_max_tokens(fields: SamplingFields) -> int | None:
    """Return the token limit; None if not given, the largest integer for "no limit"."""
    value = _first(fields, _MAX_TOKENS_NAMES)
    if value is None:
        return None
    return _UINT32_MAX if value == -1 else min(int(value), _UINT32_MAX)


def parse_budget(fields: SamplingFields) -> int | None:
    """Return the token budget for thinking; None if not given, -1 for no limit.

    Raises:
        ServiceError: the budget exceeds the request's token limit.
    """
    value = _first(fields, _BUDGET_NAMES)
    limit = parse_max_tokens(fields)
    if value is not None and limit is not None and value > limit:
        raise ServiceError(
            "invalid_request",
            f"thinking_budget_tokens ({value}) must be <= max_tokens ({limit})",
            "thinking_budget_tokens",
        )
    return None if value is None else min(int(value), _INT32_MAX)


def _first(fields: SamplingFields, names: tuple[str, ...]) -> Any:
    return next((v for name in names if (v := getattr(fields, name)) is not None), None)


def _parse_seed(seed: int | None, stamp: Stamp) -> int:
    if seed is None:
        seed = stamp.policy.seed
    if seed == -1:
        return stamp.seed
    if not 0 <= seed <= _UINT64_MAX:
        raise invalid("seed", "must be -1 for random, or between 0 and 18446744073709551615")
    return seed


def _parse_breakers(fields: SamplingFields, sampling: pb.Sampling) -> None:
    """Read DRY breakers: token ids in the reference, strings in llama-server."""
    name, given = "dry_sequence_breakers", fields.dry_sequence_breakers or ()
    if len(given) > _MAX_BREAKERS:
        raise invalid(name, f"must not have more than {_MAX_BREAKERS} entries")
    if sum(isinstance(breaker, str) for breaker in given) > _MAX_BREAKER_TEXTS:
        raise invalid(name, f"must not have more than {_MAX_BREAKER_TEXTS} strings")
    for index, breaker in enumerate(given):
        if isinstance(breaker, str):
            sampling.dry_breakers.append(breaker)
        else:
            sampling.dry_breaker_ids.append(_token_id(breaker, f"{name}[{index}]"))


def _parse_bias(fields: SamplingFields, sampling: pb.Sampling) -> None:
    """Read biases: numbers, or llama-server's `false` for minus infinity."""
    bias = fields.logit_bias or {}
    if len(bias) > _MAX_BIASES:
        raise invalid("logit_bias", f"must not have more than {_MAX_BIASES} entries")
    for key, value in bias.items() if isinstance(bias, dict) else bias:
        path = f"logit_bias[{key!r}]" if isinstance(key, str) else f"logit_bias[{key}]"
        token = _token_id(key, path)
        if value is True or abs(value) > _FLOAT32_MAX:
            raise invalid(path, "must be a number, or false")
        sampling.logit_bias[token] = -math.inf if value is False else value


def _token_id(value: int | str, path: str) -> int:
    if isinstance(value, str):
        # int() also reads "1_0" and digits of other scripts.
        value = int(value) if value.isascii() and value.isdigit() and len(value) < 11 else -1
    if not 0 <= value <= _INT32_MAX:
        raise invalid(path, "is not a token id")
    return value
