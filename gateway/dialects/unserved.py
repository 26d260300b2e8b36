"""Fields that a dialect knows and does not support.

A field that would change the answer is refused by name, any other is ignored. Each dialect lists
both in its wire.py, from which the documentation is generated. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.dialects.sampling import invalid

# Field → reason for ignoring it.
Ignored = Mapping[str, str]
# Field → the values without effect, and the message for all others. Null has no effect.
Refused = Mapping[str, tuple[tuple[Any, ...], str]]


def refuse_unserved(fields: msgspec.Struct, refused: Refused) -> None:
    """Refuse the first field that needs something unsupported.

    Raises:
        ServiceError: `invalid_request`, naming the field.
    """
    for name, (inert, sentence) in refused.items():
        value = getattr(fields, name)
        if value is not None and not any(_equals(value, v) for v in inert):
            raise invalid(name, sentence)


def _equals(value: Any, inert: Any) -> bool:
    """Return whether two values are the same JSON: 0.0 equals 0, but true does not equal 1."""
    return bool(value == inert) and isinstance(value, bool) == isinstance(inert, bool)
