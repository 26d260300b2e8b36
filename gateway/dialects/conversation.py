"""What every conversation must keep to, in whichever dialect it is told.

Owns the limits of the REST reference that all routes with turns and tools share. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from shared.errors import ServiceError
from shared.pb import text_pb2 as pb

_MAX_TOOLS: Final = 128
# Each turn and part costs a template more than its few bytes cost a client.
_MAX_PIECES: Final = 2**15


def check_tool_count(count: int) -> None:
    """Refuse more tools than the reference allows."""
    if count > _MAX_TOOLS:
        sentence = f"Too many tools: {count}. Maximum allowed is {_MAX_TOOLS}."
        raise ServiceError("invalid_request", sentence, "tools")


def check_piece_count(count: int, field: str) -> None:
    """Refuse a conversation of more turns, parts and calls than any context could hold.

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
    """Refuse a conversation in which nobody says anything.

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
