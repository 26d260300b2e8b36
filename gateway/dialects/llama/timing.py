"""The `timings` of llama-server's answers. Pure."""

from __future__ import annotations

from typing import Any

from shared.pb import common_pb2 as common
from shared.pb import text_pb2 as pb


def describe(usage: common.Usage, timings: pb.Timings) -> dict[str, Any]:
    """Return durations and rates; rates without tokens are 0.

    Generation is timed from the first token on, so its rates count one token less.
    """
    prompt_n = usage.prompt_tokens - usage.cached_tokens
    steps = max(usage.completion_tokens - 1, 0)
    return {
        "cache_n": usage.cached_tokens,
        "prompt_n": prompt_n,
        "prompt_ms": timings.prompt_ms,
        "prompt_per_token_ms": _divide(timings.prompt_ms, prompt_n),
        "prompt_per_second": _divide(1000 * prompt_n, timings.prompt_ms),
        "predicted_n": usage.completion_tokens,
        "predicted_ms": timings.predicted_ms,
        "predicted_per_token_ms": _divide(timings.predicted_ms, steps),
        "predicted_per_second": _divide(1000 * steps, timings.predicted_ms),
    }


def _divide(value: float, by: float) -> float:
    return value / by if by else 0.0
