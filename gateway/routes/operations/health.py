"""GET /health: whether the default worker accepts requests, and its load.

Owns the shape of the answer; every number in it comes from the registry. Describes the first text
worker, or without one the first worker, and lists all workers. Runs on the gateway's event loop
and calls no worker, so it also answers while workers are down.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from aiohttp import web

from gateway.context import CONTEXT
from gateway.dialects.openai import errors
from gateway.fleet.text_worker import TextWorker
from gateway.fleet.worker import Worker
from gateway.fleet.worker_watch import LIVE
from gateway.http.answer import answer_json
from gateway.routes.route import Route

# State of a worker that accepts no requests → what the report calls it.
_UNREADY: Final = {"loading": "loading model", "down": "restarting"}


def routes() -> list[Route]:
    return [Route("GET", path, get_health, errors) for path in ("/", "/health", "/v1/health")]


async def get_health(request: web.Request) -> web.Response:
    """Answer 200 if a request would start now, else 503."""
    registry = request.app[CONTEXT].registry
    of_text = any(isinstance(worker, TextWorker) for worker in registry.workers)
    worker = registry.default() if of_text or not registry.workers else registry.workers[0]
    status, report = describe(worker, registry.workers)
    return answer_json(report, status)


def describe(worker: Worker, workers: Sequence[Worker]) -> tuple[int, dict[str, Any]]:
    """Return the status and the report."""
    card, state = worker.card, worker.state
    rows = [_row(each) for each in workers]
    if card is None or state not in LIVE:
        return 503, _describe_unready(worker, rows)
    if not isinstance(worker, TextWorker):
        report = {"model": card.name, "context_size": card.context_tokens}
        report |= {"tool_call_parser": None, "workers": rows}
        return _status(is_busy=state == "busy", is_full=False, report=report)
    live = [replica for replica in worker.replicas if replica.live]
    active = sum(replica.active for replica in live)
    report = {
        "model": card.name,
        "batch": {
            "active_sequences": active,
            "queue_depth": worker.admission.waiting + sum(replica.queued for replica in live),
            "max_batch_size": worker.slots,
        },
        "observability": _count(worker, active),
        "context_size": card.context_tokens,
        "tool_call_parser": "mlxcel" if card.tool_call_format else None,
        "workers": rows,
    }
    is_full = active >= sum(replica.slots for replica in live)
    return _status(is_busy=state == "busy", is_full=is_full, report=report)


def _status(*, is_busy: bool, is_full: bool, report: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    status = "busy" if is_busy else "no slot available" if is_full else "ok"
    return (200 if status == "ok" else 503), {"status": status} | report


def _describe_unready(worker: Worker, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the report of a worker that accepts no requests; with the rows if one has failed."""
    status = _UNREADY.get(worker.state, worker.state)
    report: dict[str, Any] = {"status": status, "tool_call_parser": None}
    if worker.failure:
        report["reason"] = worker.failure
    if any(row["state"] == "failed" for row in rows):
        report["workers"] = rows
    return report


def _count(worker: TextWorker, active: int) -> dict[str, int]:
    totals = worker.counters()
    return {
        "sequences_started": totals["sequences_started"],
        "sequences_completed": totals["sequences_completed"],
        "total_prefill_tokens": totals["prefill_tokens"],
        "total_decode_tokens": totals["decode_tokens"],
        "decode_steps_processed": totals["decode_steps"],
        "prefill_chunks_processed": totals["prefill_chunks"],
        "current_batch_size": active,
        "cache_pool_active": active,
    }


def _row(worker: Worker) -> dict[str, Any]:
    row = {
        "name": worker.entry.name,
        "kind": worker.entry.kind,
        "model": worker.card.name if worker.card is not None else None,
        "state": worker.state,
    }
    return row | ({"reason": worker.failure} if worker.failure else {})
