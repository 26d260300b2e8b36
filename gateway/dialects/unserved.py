"""Fields that a dialect knows and does not serve.

What would change the answer is refused by name, what would not is ignored; each dialect lists
both in its wire file, and the documentation is printed from there. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.dialects.sampling import invalid

# Field → why ignoring it is right.
Ignored = Mapping[str, str]
# Field → the values that ask for nothing, and what to say to the others. Null asks for nothing.
Refused = Mapping[str, tuple[tuple[Any, ...], str]]


def refuse_unserved(fields: msgspec.Struct, refused: Refused) -> None:
    """Refuse the first field that asks for what is not served.

    Raises:
        ServiceError: `invalid_request`, naming the field.
    """
    for name, (inert, sentence) in refused.items():
        value = getattr(fields, name)
        if value is not None and not any(_equals(value, v) for v in inert):
            raise invalid(name, sentence)


def _equals(value: Any, inert: Any) -> bool:
    """Return whether two values are the same JSON: 0.0 is 0, but true is no number."""
    return bool(value == inert) and isinstance(value, bool) == isinstance(inert, bool)
