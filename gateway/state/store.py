"""The interface of a key-value store for state that outlives a request.

Owns the interface and the limits of every store; archive.py owns the values. Stores are used on the
gateway's event loop, and every call has a deadline.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class StoreLimits:
    """The limits of a store. The least recently used entry is evicted first.

    Attributes:
        ttl_s: time since the last use after which an entry is evicted; 0 for never.
    """

    max_entries: int
    max_bytes: int
    ttl_s: int

    @property
    def is_off(self) -> bool:
        """Whether nothing can be stored, which is how a user switches storing off."""
        return self.max_entries <= 0 or self.max_bytes <= 0


class KeyValueStore(Protocol):
    """Values by key. Reads and writes count as uses; a value larger than the store is not stored.

    Raises:
        ServiceError: `store_unavailable`, from every method but `close`.
    """

    async def get(self, key: str) -> bytes | None:
        """Return a value; None if there is none."""

    async def put(self, key: str, value: bytes) -> bool:
        """Set a value; return whether it is stored."""

    async def append(self, key: str, value: bytes) -> bool:
        """Append to a value, which may not exist yet; return whether it is stored.

        Concurrent appends all take effect. A value that would become too large is left unchanged.
        """

    async def delete(self, key: str) -> bool:
        """Delete a value; return whether there was one."""

    async def close(self) -> None:
        """Close connections."""
