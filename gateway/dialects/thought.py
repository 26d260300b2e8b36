"""Reasoning that clients send back in the history.

Clients drop reasoning from the history, and the model would lose it within a tool loop, unless it
has a signature (Anthropic) or encrypted content (OpenAI). Here both are plain encodings: they prove
and hide nothing, and reasoning that is sent back is trusted. Pure.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Final

_MARK: Final = "mlxcel."
_CARRIER: Final = "mlxcel-thought."


def sign(thought: str) -> str:
    """Return the signature of reasoning that is shown."""
    return _MARK + hashlib.sha256(thought.encode()).hexdigest()


def carry(thought: str) -> str:
    """Return a string that encodes the reasoning itself."""
    return _CARRIER + base64.urlsafe_b64encode(thought.encode()).decode()


def recall(thought: str, carried: str) -> str:
    """Return the reasoning that a client sent back; empty if another server encoded it."""
    if thought or not carried.startswith(_CARRIER):
        return thought
    try:
        return base64.urlsafe_b64decode(carried.removeprefix(_CARRIER)).decode()
    except ValueError:
        return ""
