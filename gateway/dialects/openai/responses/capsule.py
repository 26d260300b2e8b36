"""Compaction items: a summary and the kept items in one opaque string, and their replay.

The string is base64url of JSON, not encrypted: clients send it back, and it is validated like the
rest of a body. A compaction replaces every item before it except system messages; of several in a
history, the last counts. Pure.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import orjson

from gateway.dialects import json_body
from gateway.dialects.openai.responses import wire
from gateway.dialects.openai.responses.item import read_kind
from shared.errors import ServiceError

_VERSION: Final = 1
# Text for the model. Templates need alternating turns, so the role of the summary depends on the
# next turn.
_QUESTION: Final = "Summarize our conversation so far, so that we can go on from there."
_HANDOFF: Final = "Conversation handoff:\n"


class Capsule(msgspec.Struct):
    """The content of a compaction item.

    Attributes:
        items: kept unchanged; they follow the summary.
    """

    version: int
    summary: str
    items: list[msgspec.Raw]


_CAPSULE: Final = msgspec.json.Decoder(Capsule)
_ITEM: Final = msgspec.json.Decoder(wire.CompactionItem)
_ROLE: Final = msgspec.json.Decoder(wire.ItemHead)


def seal(summary: str, items: Sequence[msgspec.Raw]) -> str:
    """Return the `encrypted_content` of a compaction."""
    text = msgspec.json.encode(Capsule(_VERSION, summary, list(items)))
    return base64.urlsafe_b64encode(text).decode()


def expand(
    items: Sequence[msgspec.Raw], name_path: Callable[[int], str]
) -> tuple[list[msgspec.Raw], Callable[[int], str]]:
    """Return a history with its last compaction replayed, and the paths of its items.

    Raises:
        ServiceError: this server did not make the compaction.
    """
    kinds = [read_kind(raw, name_path(index)) for index, raw in enumerate(items)]
    if "compaction" not in kinds:
        return list(items), name_path
    last = len(kinds) - 1 - kinds[::-1].index("compaction")
    path = name_path(last)
    capsule = _open(json_body.decode(_ITEM, items[last], path).encrypted_content, path)
    kept = [index for index in range(last) if is_pinned(items[index])]
    head = [items[index] for index in kept]
    replayed = [*summary_items(capsule.summary, capsule.items), *capsule.items]
    paths = [name_path(index) for index in kept] + [path] * len(replayed)
    paths += [name_path(index) for index in range(last + 1, len(items))]
    return [*head, *replayed, *items[last + 1 :]], paths.__getitem__


def is_pinned(raw: msgspec.Raw) -> bool:
    """Return whether compaction keeps an item: system and developer messages are kept."""
    head = _ROLE.decode(raw)
    return head.type in (None, "message") and head.role in ("system", "developer")


def summary_items(summary: str, kept: Sequence[msgspec.Raw]) -> list[msgspec.Raw]:
    """Return the items that present a summary to the model, before the kept ones."""
    head = _ROLE.decode(kept[0]) if kept else wire.ItemHead(role="user")
    if head.role == "user":
        return [_message("user", _QUESTION), _message("assistant", _HANDOFF + summary)]
    return [_message("user", _HANDOFF + summary)]


def _message(role: str, text: str) -> msgspec.Raw:
    fields: dict[str, Any] = {"type": "message", "role": role, "content": text}
    return msgspec.Raw(orjson.dumps(fields))


def _open(sealed: str, path: str) -> Capsule:
    where = f"{path}.encrypted_content"
    try:
        text = base64.b64decode(sealed.encode(), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _foreign(where) from None
    try:
        capsule = json_body.decode(_CAPSULE, text, where)
    except ServiceError:
        raise _foreign(where) from None
    if capsule.version != _VERSION:
        raise _foreign(where)
    if any(read_kind(raw, where) == "compaction" for raw in capsule.items):
        raise _foreign(where)
    return capsule


def _foreign(path: str) -> ServiceError:
    sentence = f"{path}: is not a compaction of this server"
    return ServiceError("invalid_request", sentence, path)
