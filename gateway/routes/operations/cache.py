"""The prompt cache: GET /v1/cache/stats and POST /v1/cache/reset.

Owns the form of both responses, which is the same with the cache on or off. `?model=` names a
worker; the numbers of its replicas are summed. Runs on the gateway's event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from gateway.context import CONTEXT
from gateway.dialects.openai import errors
from gateway.fleet.text_client import TextClient
from gateway.fleet.text_worker import TextWorker
from gateway.http.answer import answer_json
from gateway.routes.route import Route
from shared.pb import text_pb2 as pb


def routes() -> list[Route]:
    return [
        Route("GET", "/v1/cache/stats", get_stats, errors),
        Route("POST", "/v1/cache/reset", reset, errors),
    ]


async def get_stats(request: web.Request) -> web.Response:
    stats = [client.cache_stats() for client in _clients(request)]
    return answer_json(describe(await asyncio.gather(*stats)))


async def reset(request: web.Request) -> web.Response:
    """Empty the cache. Idempotent."""
    freed = await asyncio.gather(*(client.cache_reset() for client in _clients(request)))
    report = {
        "cleared": True,
        "freed_bytes": sum(reply.freed_bytes for reply in freed),
        "freed_entries": sum(reply.freed_entries for reply in freed),
    }
    return answer_json(report)


def describe(replies: Sequence[pb.CacheStatsReply]) -> dict[str, Any]:
    """Return the report on a worker, summed over its replicas.

    The block fields belong to block-wise caches; this cache keeps whole prefixes and reports
    `apc_enabled: false` and zeros.
    """

    def total(name: str) -> int:
        return sum(getattr(reply, name) for reply in replies)

    lookups = total("lookups")
    return {
        "enabled": any(reply.enabled for reply in replies),
        "apc_enabled": False,
        "block_size": 16,
        "hash": "sha256",
        "entries": total("entries"),
        "bytes": total("bytes"),
        "capacity_bytes": total("capacity_bytes"),
        "max_entries": total("max_entries"),
        "hits": total("hits"),
        "lookups": lookups,
        "hit_rate": total("hits") / lookups if lookups else 0.0,
        "inserts": total("inserts"),
        "evictions_lru": total("evictions_lru"),
        "evictions_ttl": total("evictions_ttl"),
        "rejections_oversized": total("rejections_oversized"),
        "total_blocks_stored": 0,
        "unique_block_hashes": 0,
        "apc_active_entries": 0,
        "tokens_reused": total("tokens_reused"),
    }


def _clients(request: web.Request) -> Sequence[TextClient]:
    """Return the clients of the worker that is named; none on a server without text workers."""
    registry, model = request.app[CONTEXT].registry, request.query.get("model")
    if not model and not any(isinstance(worker, TextWorker) for worker in registry.workers):
        return ()
    worker = registry.resolve(model)
    worker.require_ready()
    return worker.clients()
