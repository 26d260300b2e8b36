"""How llama-server's routes say that something failed.

The answer is the reference's envelope; inside a stream the code is the HTTP status, as
llama-server's clients expect it there. Pure.
"""

from __future__ import annotations

import orjson

from gateway.dialects.envelope import FORMS, envelope, error
from shared.errors import ServiceError

__all__ = ["error", "frame"]


def frame(failure: ServiceError) -> bytes:
    """Return the event of a stream that has failed, which is its last."""
    body = envelope(failure) | {"code": FORMS[failure.code][0]}
    return b"data: %b\n\n" % orjson.dumps({"error": body})
