"""The signature of a block of thoughts: what a client must send back with it, unread.

Anthropic's clients drop thoughts without one from the history, and the model would lose them in
the middle of a tool loop. Nothing is proven by it here: thoughts that are sent back are believed.
When a client asks not to be shown them, the signature carries them. Pure.
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
    """Return a signature that holds the thoughts themselves."""
    return _CARRIER + base64.urlsafe_b64encode(thought.encode()).decode()


def recall(thinking: str, signature: str) -> str:
    """Return the thoughts that a client has sent back, empty if they were another server's."""
    if thinking or not signature.startswith(_CARRIER):
        return thinking
    try:
        return base64.urlsafe_b64decode(signature.removeprefix(_CARRIER)).decode()
    except ValueError:
        return ""
