"""A store in the memory of one gateway process.

Owns its entries and their order of use. Runs on the gateway's event loop; time is injected.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from gateway.state.store import StoreLimits


@dataclass
class _Entry:
    value: bytes
    used_s: float


class MemoryStore:
    """Keeps values in a dictionary, least recently used first.

    Args:
        now_s: a monotonic clock.
    """

    def __init__(self, limits: StoreLimits, now_s: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._now_s = now_s
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._held_bytes = 0

    async def get(self, key: str) -> bytes | None:
        self._expire()
        entry = self._entries.get(key)
        if entry is None:
            return None
        entry.used_s = self._now_s()
        self._entries.move_to_end(key)
        return entry.value

    async def put(self, key: str, value: bytes) -> bool:
        """Set a value; return whether it is stored."""
        self._expire()
        if len(value) > self._limits.max_bytes:
            return False
        self._forget(key)
        self._entries[key] = _Entry(value, self._now_s())
        self._held_bytes += len(value)
        while len(self._entries) > self._limits.max_entries or self._is_full():
            self._forget(next(iter(self._entries)))
        return True

    async def append(self, key: str, value: bytes) -> bool:
        """Append to a value; return whether it is stored."""
        self._expire()
        entry = self._entries.get(key)
        return await self.put(key, value if entry is None else entry.value + value)

    async def delete(self, key: str) -> bool:
        """Delete a value; return whether there was one."""
        self._expire()
        return self._forget(key)

    async def close(self) -> None:
        """Do nothing: no connection is open."""

    def _is_full(self) -> bool:
        return self._held_bytes > self._limits.max_bytes

    def _expire(self) -> None:
        oldest_s = self._now_s() - self._limits.ttl_s
        while self._limits.ttl_s > 0 and self._entries:
            key, entry = next(iter(self._entries.items()))
            if entry.used_s > oldest_s:
                return
            self._forget(key)

    def _forget(self, key: str) -> bool:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._held_bytes -= len(entry.value)
        return entry is not None
