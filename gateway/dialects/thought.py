"""Thoughts that go to a client and come back from it, unread.

Clients of both families drop thoughts from the history unless something beside them says that the
server wants them back, and the model would lose them in the middle of a tool loop: Anthropic's a
signature, OpenAI's an encrypted content. Nothing is proven or hidden by either here: thoughts that
are sent back are believed. Pure.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Final

_MARK: Final = "mlxcel."
_CARRIER: Final = "mlxcel-thought."


def sign(thought: str) -> str:
    """Return the signature of thoughts that are shown."""
    return _MARK + hashlib.sha256(thought.encode()).hexdigest()


def carry(thought: str) -> str:
    """Return a text that holds the thoughts themselves."""
    return _CARRIER + base64.urlsafe_b64encode(thought.encode()).decode()


def recall(thought: str, carried: str) -> str:
    """Return the thoughts that a client has sent back, empty if they were another server's."""
    if thought or not carried.startswith(_CARRIER):
        return thought
    try:
        return base64.urlsafe_b64decode(carried.removeprefix(_CARRIER)).decode()
    except ValueError:
        return ""
