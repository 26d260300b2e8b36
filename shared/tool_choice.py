"""Which tool choices require a call. Pure."""

from __future__ import annotations

from typing import Final

from shared.pb import text_pb2 as pb

_FORCED: Final = frozenset({pb.ToolChoice.MODE_REQUIRED, pb.ToolChoice.MODE_NAMED})


def is_forced(choice: pb.ToolChoice) -> bool:
    """Return whether the answer must be a tool call."""
    return choice.mode in _FORCED
