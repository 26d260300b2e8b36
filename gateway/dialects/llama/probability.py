"""The `completion_probabilities` of llama-server's answers. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from shared.pb import text_pb2 as pb

# JSON has no minus infinity; llama-server writes its lowest float.
_LOWEST: Final = -3.4028234663852886e38


def describe(infos: Sequence[pb.TokenInfo], *, post_sampling: bool) -> list[dict[str, Any]]:
    """Return one entry per token.

    Args:
        post_sampling: the numbers are probabilities of what was left to draw from.
    """
    if not post_sampling:
        return [_logprob(i) | {"top_logprobs": [_logprob(o) for o in i.top]} for i in infos]
    return [
        _chance(info) | {"top_probs": [_chance(o) for o in info.top if o.logprob > -math.inf]}
        for info in infos
    ]


def _logprob(info: pb.TokenInfo) -> dict[str, Any]:
    return _token(info) | {"logprob": max(info.logprob, _LOWEST)}


def _chance(info: pb.TokenInfo) -> dict[str, Any]:
    return _token(info) | {"prob": math.exp(info.logprob)}


def _token(info: pb.TokenInfo) -> dict[str, Any]:
    # A part of a character has bytes but no text.
    text = info.text.decode("utf-8", "ignore")
    return {"id": info.id, "token": text, "bytes": list(info.text)}
