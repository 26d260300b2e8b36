"""llama-server's infill: a native completion of the text between a prefix and a suffix.

Owns the request; the response is native.py's. Pure.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

import msgspec

from gateway.dialects.base import Stamp
from gateway.dialects.json_body import decode
from gateway.dialects.llama import native, wire
from gateway.dialects.llama.parsed import NativeParsed, parse_native
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb
from shared.pb import worker_pb2

ID_PREFIX: Final = native.ID_PREFIX
KNOWN: Final = frozenset(wire.InfillBody.__struct_fields__) | wire.NATIVE_IGNORED.keys()

error = native.error
renderer = native.renderer
body = native.body

_BODY: Final = msgspec.json.Decoder(wire.InfillBody)
# Snippets without a file name get this one.
_FILENAME: Final = "tmp"


def parse(body: bytes, stamp: Stamp) -> NativeParsed:
    """Return the request of a body.

    Raises:
        ServiceError: `invalid_request`, naming the field.
    """
    fields = decode(_BODY, body)
    snippets = [
        pb.Snippet(filename=snippet.filename or _FILENAME, text=snippet.text)
        for snippet in fields.input_extra or ()
    ]
    gap = pb.Infill(
        prefix=fields.input_prefix,
        suffix=fields.input_suffix,
        prompt=fields.prompt,
        snippets=snippets,
    )
    return parse_native(fields, {"infill": gap}, stamp)


def require_markers(card: worker_pb2.ModelCard) -> None:
    """Refuse an infill if the model lacks the tokens for it.

    Raises:
        ServiceError: `not_supported`, naming the missing tokens.
    """
    roles = [field.name for field in worker_pb2.InfillMarkers.DESCRIPTOR.fields]
    missing = [role for role in roles if not getattr(card.infill, role)]
    if missing:
        names = " ".join(f"{role} token is missing." for role in missing)
        raise ServiceError("not_supported", f"Infill is not supported by this model: {names}")


def model_of(body: bytes) -> str | None:
    """Return the model that a body names, even if the rest is invalid."""
    with contextlib.suppress(ServiceError):
        value: Any = decode(_MODEL, body).get("model")
        return value if isinstance(value, str) else None
    return None


_MODEL: Final = msgspec.json.Decoder(dict[str, Any])
