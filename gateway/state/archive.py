"""Stored responses by id, and the items of conversations.

Owns the form of records and the errors when something is missing, switched off or unreachable; a
store keeps the bytes. A record has every item that the next turn starts with, so that a chain does
not depend on earlier responses. Runs on the gateway's event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec
from redis.asyncio.connection import parse_url

from gateway.state.memory import MemoryStore
from gateway.state.redis_store import SCHEMES, RedisStore
from gateway.state.store import KeyValueStore, StoreLimits
from shared.declaration import ConfigError
from shared.errors import ServiceError
from shared.settings import GatewaySettings

log = logging.getLogger(__name__)
T = TypeVar("T")


class Record(msgspec.Struct):
    """A stored response.

    Attributes:
        response: the response object.
        items: input and output in order, with which a following request starts.
    """

    response: msgspec.Raw
    items: list[msgspec.Raw]


_RECORD: Final = msgspec.json.Decoder(Record)
_TURN: Final = msgspec.json.Decoder(list[msgspec.Raw])


class ResponseArchive:
    """Responses and conversations.

    Args:
        responses, conversations: None if storing them is switched off.
        families: response id by item family (the common part of its item ids); off like responses.
    """

    def __init__(
        self,
        responses: KeyValueStore | None,
        conversations: KeyValueStore | None,
        families: KeyValueStore | None,
    ) -> None:
        self._responses = responses
        self._conversations = conversations
        self._families = families

    async def find(self, response_id: str) -> Record | None:
        """Return a stored response.

        Raises:
            ServiceError: `store_unavailable`, or `invalid_request` if storing is switched off.
        """
        value = await self._require_responses().get(response_id)
        return None if value is None else _read(_RECORD, value)

    async def find_family(self, family: str) -> Record | None:
        """Return the stored response of an item family.

        Raises:
            ServiceError: as `find` does.
        """
        self._require_responses()
        name = await self._families.get(family) if self._families is not None else None
        return None if name is None else await self.find(name.decode(errors="replace"))

    async def save(self, response_id: str, record: Record, family: str) -> None:
        """Store a response; a failure is only logged, since the client gets its response anyway."""
        if self._responses is None or self._families is None:
            return
        try:
            kept = await self._responses.put(response_id, msgspec.json.encode(record))
            await self._families.put(family, response_id.encode())
        except ServiceError as failure:
            log.warning("%s is not stored: %s", response_id, failure.code)
        else:
            if not kept:
                log.warning("%s is not stored: it is larger than the store", response_id)

    async def replace(self, response_id: str, response: bytes, items: list[msgspec.Raw]) -> None:
        """Replace the object of a stored response.

        Raises:
            ServiceError: `store_unavailable`.
        """
        record = Record(msgspec.Raw(response), items)
        await self._require_responses().put(response_id, msgspec.json.encode(record))

    async def delete(self, response_id: str) -> bool:
        """Delete a response; return whether it was stored.

        Raises:
            ServiceError: `store_unavailable`, or `invalid_request` if storing is switched off.
        """
        return await self._require_responses().delete(response_id)

    async def read_conversation(self, name: str) -> list[msgspec.Raw]:
        """Return the items of a conversation, none for a new name.

        Raises:
            ServiceError: `store_unavailable`, or `invalid_request` if storing is switched off.
        """
        if self._conversations is None:
            raise ServiceError(
                "invalid_request",
                "Conversations are not stored on this server: --conversation-store-max-entries "
                "or --conversation-store-max-bytes is 0.",
                "conversation",
            )
        turns = (await self._conversations.get(name) or b"").splitlines()
        return [item for turn in turns for item in _read(_TURN, turn)]

    async def extend_conversation(self, name: str, items: Sequence[msgspec.Raw]) -> None:
        """Add a turn's items to a conversation; a failure is only logged."""
        if self._conversations is None:
            return
        turn = msgspec.json.format(msgspec.json.encode(items), indent=-1)
        try:
            kept = await self._conversations.append(name, turn + b"\n")
        except ServiceError as failure:
            log.warning("a turn is missing from its conversation: %s", failure.code)
        else:
            if not kept:
                log.warning("a turn is missing from its conversation: it is larger than the store")

    async def close(self) -> None:
        for store in (self._responses, self._conversations, self._families):
            if store is not None:
                await store.close()

    def _require_responses(self) -> KeyValueStore:
        if self._responses is None:
            raise ServiceError(
                "invalid_request",
                "Responses are not stored on this server: --responses-store-max-entries or "
                "--responses-store-max-bytes is 0.",
            )
        return self._responses


def _read(decoder: msgspec.json.Decoder[T], value: bytes) -> T:
    try:
        return decoder.decode(value)
    except msgspec.DecodeError as failure:
        raise ServiceError("store_unavailable", "The stored record can't be read.") from failure


def open_archive(settings: GatewaySettings) -> ResponseArchive:
    """Return the archive of the settings; connects to nothing yet."""
    responses = StoreLimits(
        settings.responses_store_max_entries,
        settings.responses_store_max_bytes,
        settings.responses_store_ttl_s,
    )
    conversations = StoreLimits(
        settings.conversation_store_max_entries,
        settings.conversation_store_max_bytes,
        settings.conversation_store_ttl_s,
    )
    return ResponseArchive(
        _open(settings.store, "responses", responses),
        _open(settings.store, "conversations", conversations),
        _open(settings.store, "families", responses),
    )


def check_address(address: str) -> None:
    """Check the address of a store.

    Raises:
        ConfigError: it is invalid; the message omits it, since it may contain a password.
    """
    if address == "memory":
        return
    if not address.startswith(SCHEMES):
        raise ConfigError(f"--store: must be memory, or start with one of {', '.join(SCHEMES)}")
    try:
        parse_url(address)
    except ValueError:
        raise ConfigError("--store: is not the address of a Redis server") from None


def _open(address: str, name: str, limits: StoreLimits) -> KeyValueStore | None:
    if limits.is_off:
        return None
    return MemoryStore(limits) if address == "memory" else RedisStore(name, address, limits)
