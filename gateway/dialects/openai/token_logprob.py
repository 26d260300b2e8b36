"""Log-probabilities in the form of text completions: four lists with an entry per token.

Owns the names of tokens and their offsets in the text. Pure.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Any

from gateway.dialects.openai.chunk import LOWEST_LOGPROB
from shared.pb import text_pb2 as pb


class LogprobTable:
    """The log-probabilities of one answer. `take` its tokens in order, in one or more calls."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._characters = 0

    def take(self, infos: Sequence[pb.TokenInfo]) -> dict[str, Any]:
        """Return the `logprobs` object of the next tokens."""
        return {
            "tokens": [_name(info) for info in infos],
            "token_logprobs": [_value(info) for info in infos],
            "top_logprobs": [_top(info) for info in infos],
            "text_offset": [self._offset(info) for info in infos],
        }

    def _offset(self, info: pb.TokenInfo) -> int:
        """Return the number of characters before a token."""
        offset = self._characters
        self._characters += len(self._decoder.decode(info.text))
        return offset


def _top(info: pb.TokenInfo) -> dict[str, float]:
    """Return the most likely tokens and the sampled one."""
    top = {_name(other): _value(other) for other in info.top}
    return top | {_name(info): _value(info)}


def _value(info: pb.TokenInfo) -> float:
    return max(info.logprob, LOWEST_LOGPROB)


def _name(info: pb.TokenInfo) -> str:
    """Return a token's text; a part of a character is written as bytes, as by OpenAI's API."""
    try:
        return info.text.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in info.text)
