"""Errors of llama-server's routes.

Responses have the reference's envelope; inside a stream `code` is the HTTP status, as
llama-server's clients expect. Pure.
"""

from __future__ import annotations

import orjson

from gateway.dialects.envelope import FORMS, envelope, error
from shared.errors import ServiceError

__all__ = ["error", "frame"]


def frame(failure: ServiceError) -> bytes:
    """Return the last event of a stream that failed."""
    body = envelope(failure) | {"code": FORMS[failure.code][0]}
    return b"data: %b\n\n" % orjson.dumps({"error": body})
