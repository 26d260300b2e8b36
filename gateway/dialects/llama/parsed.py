"""Parsing of the fields that native completions and infills share. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.dialects.base import Parsed, Policy, Stamp
from gateway.dialects.grammar import parse_gbnf, parse_schema
from gateway.dialects.llama import setting, wire
from gateway.dialects.sampling import (
    invalid,
    parse_budget,
    parse_max_tokens,
    parse_sampling,
    parse_stop,
)
from gateway.dialects.unserved import refuse_unserved
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb

_INT32_MAX: Final = 2**31 - 1
_MAX_PROBS: Final = 100
_MAX_FIELDS: Final = 256
_TYPES: Final = {str: "string", int: "number", float: "number", list: "array", dict: "object"}


@dataclass(frozen=True, kw_only=True)
class NativeParsed(Parsed):
    """A request, and the fields of its body that the response repeats."""

    fields: wire.NativeBody


def parse_native(fields: wire.NativeBody, prompt: Mapping[str, Any], stamp: Stamp) -> NativeParsed:
    """Return the request of parsed fields.

    Args:
        prompt: a field of the canonical request.

    Raises:
        ServiceError: `invalid_request`, naming the field.
    """
    refuse_unserved(fields, wire.NATIVE_REFUSED)
    _check_answer(fields)
    _settle_limit(fields)
    _settle_values(fields, stamp.policy)
    request = pb.GenerateRequest(
        request_id=stamp.request_id,
        **prompt,
        sampling=parse_sampling(fields, stamp),
        stop=parse_stop(fields),
        max_tokens=parse_max_tokens(fields),
        grammar=_parse_grammar(fields),
        logprobs=_parse_probs(fields),
        reasoning=pb.Reasoning(budget_tokens=parse_budget(fields)),
        cache=stamp.cache_policy(enabled=fields.cache_prompt),
        arrival_ns=stamp.arrival_ns,
        with_ids=bool(fields.stream or fields.return_tokens),
        with_timings=bool(fields.stream and fields.timings_per_token),
    )
    return NativeParsed(
        request=request,
        model=fields.model,
        stream=bool(fields.stream),
        include_usage=False,
        created_unix_s=stamp.unix_s,
        counted=not fields.stream,
        ping_interval_s=fields.sse_ping_interval,
        fields=fields,
    )


def _check_answer(fields: wire.NativeBody) -> None:
    """Refuse combinations that can't be served.

    Stream options of the right type have no effect here.
    """
    paths = fields.response_fields
    if isinstance(paths, list) and len(paths) > _MAX_FIELDS:
        raise invalid("response_fields", f"must not be more than {_MAX_FIELDS}")
    interval_s = fields.sse_ping_interval
    if interval_s is not None and (interval_s == 0 or interval_s < -1):
        raise invalid("sse_ping_interval", "must be a number of seconds, or -1 for never")
    options = fields.stream_options
    value = options.get("include_usage") if isinstance(options, dict) else None
    if value is not None and not isinstance(value, bool):
        kind = _TYPES[type(value)]
        raise ServiceError(
            "invalid_request",
            f"Field 'include_usage': type must be boolean, but is {kind}",
            "stream_options.include_usage",
        )


def _settle_limit(fields: wire.NativeBody) -> None:
    """Store the token limit under its canonical name; it is at least one."""
    names = ("n_predict", "max_tokens", "max_completion_tokens")
    name = next((name for name in names if getattr(fields, name) is not None), None)
    if name is None:
        return
    value = getattr(fields, name)
    if not -1 <= value <= _INT32_MAX:
        raise ServiceError(
            "invalid_request",
            f"Field '{name}': Value must be between -1 <= value <= {_INT32_MAX}, but got {value}",
            name,
        )
    fields.max_completion_tokens = fields.max_tokens = None
    fields.n_predict = value or 1


def _settle_values(fields: wire.NativeBody, policy: Policy) -> None:
    """Clamp or disable values that OpenAI's routes refuse."""
    if fields.seed is None:
        # The response repeats it.
        fields.seed = policy.seed
    if fields.seed == setting.RANDOM_SEED:
        fields.seed = -1
    if fields.typical_p is not None and not 0 < fields.typical_p < 1:
        fields.typical_p = 1.0
    if fields.top_n_sigma is not None:
        fields.top_n_sigma = max(fields.top_n_sigma, 0.0)
    if fields.xtc_probability is not None:
        fields.xtc_probability = min(max(fields.xtc_probability, 0.0), 1.0)
    if fields.xtc_threshold is not None:
        # Two tokens can't both exceed a probability of one half.
        fields.xtc_threshold = min(max(fields.xtc_threshold, 0.0), 0.5)


def _parse_grammar(fields: wire.NativeBody) -> pb.Grammar | None:
    has_schema = bytes(fields.json_schema) != b"null"
    if fields.grammar and has_schema:
        raise invalid("grammar", "can't be combined with json_schema")
    if has_schema:
        return parse_schema(fields.json_schema, "json_schema", "json_schema")
    return parse_gbnf(fields.grammar) if fields.grammar else None


def _parse_probs(fields: wire.NativeBody) -> pb.Logprobs | None:
    name = "logprobs" if fields.n_probs is None else "n_probs"
    count = getattr(fields, name)
    if not count:
        return None
    if not 0 <= count <= _MAX_PROBS:
        raise invalid(name, f"must be between 0 and {_MAX_PROBS}")
    return pb.Logprobs(top=count, post_sampling=bool(fields.post_sampling_probs))
