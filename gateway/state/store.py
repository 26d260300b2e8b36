"""Where state that outlives a request is kept: one small interface, two implementations.

Owns the interface and the bounds that every store keeps to; what the values mean is archive.py's.
A store is used from the gateway's event loop, and every call has a deadline.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class StoreLimits:
    """What a store may hold. What was not used for longest goes first.

    Attributes:
        ttl_s: age since the last use at which an entry goes; 0 for none.
    """

    max_entries: int
    max_bytes: int
    ttl_s: int

    @property
    def is_off(self) -> bool:
        """Whether nothing can be kept, which is how a user turns storing off."""
        return self.max_entries <= 0 or self.max_bytes <= 0


class KeyValueStore(Protocol):
    """Values by key. Reading and writing are uses; a value larger than the store is not kept.

    Raises:
        ServiceError: `store_unavailable`, from every method but `close`.
    """

    async def get(self, key: str) -> bytes | None:
        """Return a value."""

    async def put(self, key: str, value: bytes) -> bool:
        """Set a value; return whether it is kept."""

    async def append(self, key: str, value: bytes) -> bool:
        """Add to the end of a value, which may not exist yet; return whether it is kept.

        Two appends at once both count. A value that would become too large stays as it is.
        """

    async def delete(self, key: str) -> bool:
        """Forget a value; return whether there was one."""

    async def close(self) -> None:
        """Let go of what the store holds open."""
