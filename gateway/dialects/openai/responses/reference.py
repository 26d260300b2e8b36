"""Input items that refer to items of earlier responses by id.

Owns how references are found and replaced. Clients that store no history send them; the id of an
item identifies its response. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from gateway.dialects import json_body
from gateway.dialects.openai.responses import wire
from shared.errors import ServiceError

# Each may be a look-up in the store.
_MAX_REFERENCES: Final = 1024

_HEAD: Final = msgspec.json.Decoder(wire.ItemHead)
_REFERENCE: Final = msgspec.json.Decoder(wire.ReferenceItem)


class _Named(msgspec.Struct):
    id: Any = None


_NAMED: Final = msgspec.json.Decoder(_Named)


def list_references(items: Sequence[msgspec.Raw]) -> dict[int, str]:
    """Return the ids that an input refers to, by index.

    Raises:
        ServiceError: a reference is malformed, or there are too many.
    """
    found: dict[int, str] = {}
    for index, raw in enumerate(items):
        path = f"input[{index}]"
        if json_body.decode(_HEAD, raw, path).type == "item_reference":
            found[index] = json_body.decode(_REFERENCE, raw, path).id
    if len(found) > _MAX_REFERENCES:
        sentence = f"input: must not have more than {_MAX_REFERENCES} references"
        raise ServiceError("invalid_request", sentence, "input")
    return found


def name_items(items: Sequence[msgspec.Raw]) -> dict[str, msgspec.Raw]:
    """Return stored items by id; items of clients may have none."""
    named = [(_NAMED.decode(raw).id, raw) for raw in items]
    return {name: raw for name, raw in named if isinstance(name, str)}


def follow(
    items: Sequence[msgspec.Raw], references: Mapping[int, str], stored: Mapping[str, msgspec.Raw]
) -> list[msgspec.Raw]:
    """Return an input with references replaced by stored items.

    Raises:
        ServiceError: an item is not stored.
    """
    followed = list(items)
    for index, name in references.items():
        if name not in stored:
            path = f"input[{index}].id"
            sentence = f"{path}: item '{name[:100]}' was not found or has expired"
            raise ServiceError("invalid_request", sentence, path)
        followed[index] = stored[name]
    return followed
