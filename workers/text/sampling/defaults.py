"""What a request wants of sampling, with the worker's defaults filled in.

Owns the defaults and the reading of `Sampling` into the rules that the engine obeys. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from google.protobuf import json_format

from shared.pb import text_pb2 as pb
from shared.settings import TextSettings
from workers.text.sampling.filter import SamplingRule
from workers.text.sampling.penalty import PenaltyRule


def default_sampling(settings: TextSettings) -> pb.Sampling:
    """Return what a request gets that says nothing."""
    return pb.Sampling(
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        min_p=settings.min_p,
        p_less=False,
        typical_p=settings.typical_p,
        top_n_sigma=settings.top_n_sigma,
        repetition_penalty=settings.repeat_penalty,
        repetition_context_tokens=settings.repeat_last_n,
        frequency_penalty=settings.frequency_penalty,
        presence_penalty=settings.presence_penalty,
        dry_multiplier=settings.dry_multiplier,
        dry_base=settings.dry_base,
        dry_allowed_length=settings.dry_allowed_length,
        dry_penalty_last_n=settings.dry_penalty_last_n,
        dry_breakers=settings.dry_sequence_breakers,
        xtc_probability=settings.xtc_probability,
        xtc_threshold=settings.xtc_threshold,
    )


def describe_defaults(settings: TextSettings) -> dict[str, Any]:
    """Return the same for the model card: by the names of Sampling, and `max_tokens`."""
    fields = json_format.MessageToDict(default_sampling(settings), preserving_proto_field_name=True)
    breakers = list(settings.dry_sequence_breakers)
    return {**fields, "dry_breakers": breakers, "max_tokens": settings.predict}


def settle(defaults: pb.Sampling, asked: pb.Sampling) -> None:
    """Fill defaults into what a request leaves open."""
    settled = pb.Sampling()
    settled.CopyFrom(defaults)
    if asked.dry_breakers or asked.dry_breaker_ids:
        del settled.dry_breakers[:]
    settled.MergeFrom(asked)
    if defaults.dry_penalty_last_n == 0 and not asked.HasField("dry_penalty_last_n"):
        # In a request a window of 0 is the whole context; as a server default it turns DRY off.
        settled.dry_multiplier = 0.0
    asked.CopyFrom(settled)


def sampling_rule(settled: pb.Sampling) -> SamplingRule:
    """Return the rule for settings that have no gaps."""
    return SamplingRule(
        temperature=settled.temperature,
        top_k=max(0, settled.top_k),
        top_p=settled.top_p,
        min_p=settled.min_p,
        p_less=settled.p_less,
        typical_p=settled.typical_p,
        top_n_sigma=settled.top_n_sigma,
        xtc_probability=settled.xtc_probability,
        xtc_threshold=settled.xtc_threshold,
    )


def penalty_rule(
    settled: pb.Sampling, pieces: Sequence[bytes], muted: Iterable[int]
) -> PenaltyRule:
    """Return the rule for settings that have no gaps.

    Args:
        pieces: bytes of each token.
        muted: tokens that must never be sampled.
    """
    bias = {int(token): float(value) for token, value in settled.logit_bias.items()}
    bias.update(dict.fromkeys(muted, -math.inf))
    dries = settled.dry_multiplier > 0
    return PenaltyRule(
        bias=bias,
        repetition=settled.repetition_penalty,
        frequency=settled.frequency_penalty,
        presence=settled.presence_penalty,
        window_tokens=settled.repetition_context_tokens,
        dry_multiplier=settled.dry_multiplier,
        dry_base=settled.dry_base,
        dry_allowed_length=settled.dry_allowed_length,
        dry_window_tokens=max(0, settled.dry_penalty_last_n),
        dry_breaker_ids=_breakers(settled, pieces) if dries else frozenset(),
    )


def _breakers(settled: pb.Sampling, pieces: Sequence[bytes]) -> frozenset[int]:
    """Return the tokens that end a DRY match: those named, and those that contain a text."""
    needles = [text.encode() for text in settled.dry_breakers if text]
    found = {
        index for index, piece in enumerate(pieces) if any(needle in piece for needle in needles)
    }
    return frozenset(found) | frozenset(settled.dry_breaker_ids)
