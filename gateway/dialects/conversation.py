"""Limits on conversations in all dialects.

Owns the limits of the REST reference for all routes with turns and tools. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from shared.errors import ServiceError
from shared.pb import text_pb2 as pb

_MAX_TOOLS: Final = 128
# Each turn and part costs rendering time, however short it is.
_MAX_PIECES: Final = 2**15


def check_tool_count(count: int) -> None:
    if count > _MAX_TOOLS:
        sentence = f"Too many tools: {count}. Maximum allowed is {_MAX_TOOLS}."
        raise ServiceError("invalid_request", sentence, "tools")


def check_piece_count(count: int, field: str) -> None:
    """Refuse a conversation with too many turns, parts and calls.

    Raises:
        ServiceError: naming `field`.
    """
    if count > _MAX_PIECES:
        raise ServiceError(
            "invalid_request",
            f"{field} must not have more than {_MAX_PIECES} turns, parts and calls, not {count}",
            field,
        )


def require_input(messages: Sequence[pb.Message], field: str) -> None:
    """Refuse a conversation without any content.

    Raises:
        ServiceError: naming `field`.
    """
    if not any(map(_has_input, messages)):
        raise ServiceError(
            "invalid_request",
            "Request must include at least one non-empty message content or media input.",
            field,
        )


def _has_input(message: pb.Message) -> bool:
    return (
        message.role == "tool"
        or bool(message.tool_calls)
        or bool(message.reasoning.strip())
        or any(part.HasField("media") or part.text.strip() for part in message.parts)
    )
