"""A store in Redis, which several gateways share.

Owns the layout of its keys and the scripts that keep a store within its limits. Each operation is
one script and so atomic. Redis that can't be reached in time is `store_unavailable`. Runs on the
gateway's event loop.

Per store: a string per value; a sorted set of keys by time of last use, in microseconds of Redis'
clock; a hash of sizes; their sum. Braces in the names keep them on one node of a cluster.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.commands.core import AsyncScript
from redis.exceptions import RedisError

from gateway.state.store import StoreLimits
from shared.errors import ServiceError

SCHEMES: Final = ("redis://", "rediss://", "unix://")

_MAX_CONNECTIONS: Final = 64

# Arguments of every script. KEYS: value, times of use, sizes, sum of sizes. ARGV: key, maximum age
# in microseconds, prefix of the names of values.
_COMMON: Final = """
local value, used, sizes, total = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local key, ttl, prefix = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function touch()
  -- Later than all others, even after the clock was set back.
  local score = now()
  local last = redis.call('ZRANGE', used, -1, -1, 'WITHSCORES')
  if last[2] and tonumber(last[2]) >= score then score = tonumber(last[2]) + 1 end
  redis.call('ZADD', used, score, key)
  if ttl > 0 then redis.call('PEXPIRE', value, math.floor(ttl / 1000)) end
end

local function forget(other)
  redis.call('ZREM', used, other)
  local size = redis.call('HGET', sizes, other)
  if size then
    redis.call('HDEL', sizes, other)
    redis.call('DECRBY', total, size)
  end
  return redis.call('DEL', prefix .. other)
end
"""

_GET: Final = """
local found = redis.call('GET', value)
if found then touch() end
return found
"""

# Further ARGV: the text, 1 to append, most entries, most bytes.
_WRITE: Final = """
local text, appends = ARGV[4], ARGV[5] == '1'
local max_entries, max_bytes = tonumber(ARGV[6]), tonumber(ARGV[7])
if ttl > 0 then
  local expired = redis.call('ZRANGEBYSCORE', used, '-inf', now() - ttl)
  for _, other in ipairs(expired) do forget(other) end
end
local size = #text
if appends then size = size + redis.call('STRLEN', value) end
if size > max_bytes then return 0 end
redis.call(appends and 'APPEND' or 'SET', value, text)
redis.call('INCRBY', total, size - (tonumber(redis.call('HGET', sizes, key)) or 0))
redis.call('HSET', sizes, key, size)
touch()
while redis.call('ZCARD', used) > max_entries
  or tonumber(redis.call('GET', total)) > max_bytes do
  forget(redis.call('ZRANGE', used, 0, 0)[1])
end
return 1
"""

_DELETE: Final = "return forget(key)"


class RedisStore:
    """Keeps values in Redis.

    Args:
        name: of the store, whose keys are separate from those of other stores.
        timeout_s: time limit of an operation, connecting included.
    """

    def __init__(self, name: str, url: str, limits: StoreLimits, timeout_s: float = 2.0) -> None:
        self._limits = limits
        self._timeout_s = timeout_s
        self._stem = f"mlxcel:{{{name}}}:"
        # No retries: a second attempt could append twice.
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=_MAX_CONNECTIONS,
            timeout=timeout_s,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
        )
        self._client: Redis = Redis.from_pool(pool)
        self._get, self._write, self._delete = (
            self._client.register_script(_COMMON + text) for text in (_GET, _WRITE, _DELETE)
        )

    async def get(self, key: str) -> bytes | None:
        value = await self._run(self._get, key)
        return None if value is None else bytes(value)

    async def put(self, key: str, value: bytes) -> bool:
        """Set a value; return whether it is stored."""
        return bool(await self._run(self._write, key, value, 0, *self._bounds))

    async def append(self, key: str, value: bytes) -> bool:
        """Append to a value; return whether it is stored."""
        return bool(await self._run(self._write, key, value, 1, *self._bounds))

    async def delete(self, key: str) -> bool:
        """Delete a value; return whether there was one."""
        return bool(await self._run(self._delete, key))

    async def close(self) -> None:
        await self._client.aclose()

    @property
    def _bounds(self) -> tuple[int, int]:
        return self._limits.max_entries, self._limits.max_bytes

    async def _run(self, script: AsyncScript, key: str, *arguments: bytes | int) -> Any:
        """Return the result of a script.

        Raises:
            ServiceError: `store_unavailable`.
        """
        prefix = f"{self._stem}value:"
        names = [prefix + key, *(self._stem + part for part in ("used", "sizes", "total"))]
        ttl_us = self._limits.ttl_s * 1_000_000
        try:
            async with asyncio.timeout(self._timeout_s):
                return await script(keys=names, args=[key, ttl_us, prefix, *arguments])
        except (RedisError, OSError, TimeoutError) as failure:
            raise ServiceError(
                "store_unavailable",
                "The store of responses and conversations can't be reached. Please try again.",
                retry_after_s=1.0,
            ) from failure
