"""GET /metrics in Prometheus' text format.

Owns names and help texts. The reference's families are written here, since prometheus-client would
add `_total` to counters whose name lacks it and print integers as floats; it writes the families
with labels. Numbers of workers are summed over text workers, across restarts. Runs on the gateway's
event loop and makes no RPC.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import prometheus_client
from aiohttp import web

from gateway.context import CONTEXT
from gateway.dialects.openai import errors
from gateway.fleet.text_worker import TextWorker
from gateway.fleet.worker import Worker
from gateway.metrics import Metrics
from gateway.routes.route import Route

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass
class Load:
    """Sums over text workers: current load and counters."""

    slots: int = 0
    active: int = 0
    queued: int = 0
    cache_bytes: int = 0
    cache_entries: int = 0
    counters: Counter[str] = field(default_factory=Counter)


def routes() -> list[Route]:
    return [Route("GET", "/metrics", get_metrics, errors)]


async def get_metrics(request: web.Request) -> web.Response:
    context = request.app[CONTEXT]
    metrics, load = context.metrics, sum_load(context.registry.workers)
    families = [*_list_llama(metrics, load), *_list_mlxcel(metrics, load), *_list_more(load)]
    headers = {
        "Content-Type": CONTENT_TYPE,
        "Process-Start-Time-Unix": str(metrics.started_unix_s),
    }
    body = "".join(families).encode() + prometheus_client.generate_latest(metrics.registry)
    return web.Response(body=body, headers=headers)


def sum_load(workers: Iterable[Worker]) -> Load:
    """Return the sums over the text workers among `workers`."""
    load = Load()
    for worker in workers:
        if not isinstance(worker, TextWorker):
            continue
        load.queued += worker.admission.waiting
        load.counters += worker.counters()
        for replica in worker.replicas:
            load.slots += replica.slots
            load.active += replica.active
            load.queued += replica.queued
            if replica.beat is not None:
                load.cache_bytes += replica.beat.memory.prompt_cache_bytes
                load.cache_entries += replica.beat.prompt_cache_entries
    return load


def counter(name: str, text: str, value: float | str | Mapping[str, int]) -> str:
    """Return the lines of a counter and an empty line.

    Args:
        value: a number, its text, or a number per label, e.g. `{reason="lru"}`.
    """
    values = value if isinstance(value, Mapping) else {"": value}
    samples = "".join(f"{name}{label} {number}\n" for label, number in values.items())
    return f"# HELP {name} {text}\n# TYPE {name} counter\n{samples}\n"


def gauge(name: str, text: str, value: float) -> str:
    """Return the lines of a gauge and an empty line."""
    return f"# HELP {name} {text}\n# TYPE {name} gauge\n{name} {value}\n\n"


def _list_mlxcel(metrics: Metrics, load: Load) -> list[str]:
    """Return the families of the reference, with its order and help texts."""
    totals, counted = metrics.counted, load.counters
    return [
        counter(
            "mlxcel_requests_total",
            "Total number of completed generation requests; chat completion streams cancelled by "
            "the client are excluded",
            totals.requests,
        ),
        counter(
            "mlxcel_prompt_tokens_total", "Total prompt tokens processed", totals.prompt_tokens
        ),
        counter(
            "mlxcel_completion_tokens_total",
            "Total completion tokens of the requests counted in mlxcel_requests_total",
            totals.completion_tokens,
        ),
        counter(
            "mlxcel_generation_time_seconds_total",
            "Total generation time in seconds",
            _seconds(totals.prompt_ms + totals.predicted_ms),
        ),
        gauge("mlxcel_slots_total", "Total number of parallel slots", load.slots),
        gauge("mlxcel_slots_available", "Available parallel slots", load.slots - load.active),
        gauge("mlxcel_queue_depth", "Current prefill queue depth", load.queued),
        counter(
            "mlxcel_batch_sequences_started",
            "Total sequences that entered prefill",
            counted["sequences_started"],
        ),
        counter(
            "mlxcel_batch_sequences_completed",
            "Total sequences that completed generation",
            counted["sequences_completed"],
        ),
        counter(
            "mlxcel_batch_prefill_tokens_total",
            "Cumulative prefill tokens processed",
            counted["prefill_tokens"],
        ),
        counter(
            "mlxcel_batch_decode_tokens_total",
            "Cumulative decode tokens generated",
            counted["decode_tokens"],
        ),
        gauge("mlxcel_batch_current_size", "Current active batch size", load.active),
        gauge("mlxcel_cache_pool_active", "Active cache entries", load.active),
    ]


def _list_more(load: Load) -> list[str]:
    """Return the further families: steps and the prompt cache."""
    counted = load.counters
    evictions = {
        '{reason="lru"}': counted["prompt_cache_evictions_lru"],
        '{reason="ttl"}': counted["prompt_cache_evictions_ttl"],
    }
    misses = counted["prompt_cache_lookups"] - counted["prompt_cache_hits"]
    return [
        counter("mlxcel_batch_decode_steps_total", "Decode steps", counted["decode_steps"]),
        counter(
            "mlxcel_batch_prefill_chunks_total",
            "Prefill chunks processed",
            counted["prefill_chunks"],
        ),
        counter(
            "mlxcel_batch_mixed_steps_total",
            "Steps in which some sequences prefilled while others decoded",
            counted["mixed_steps"],
        ),
        counter(
            "mlxcel_batch_preemptions_total",
            "Sequences preempted by others",
            counted["preemptions"],
        ),
        counter(
            "mlxcel_prompt_cache_hits_total",
            "Prompts with a prefix in the prompt cache",
            counted["prompt_cache_hits"],
        ),
        counter(
            "mlxcel_prompt_cache_misses_total",
            "Prompts without a prefix in the prompt cache",
            misses,
        ),
        counter(
            "mlxcel_prompt_cache_prefix_tokens_reused_total",
            "Prompt tokens reused from the prompt cache",
            counted["prompt_cache_tokens_reused"],
        ),
        counter(
            "mlxcel_prompt_cache_evictions_total",
            "Entries evicted from the prompt cache",
            evictions,
        ),
        gauge("mlxcel_prompt_cache_bytes", "Memory of the prompt cache", load.cache_bytes),
        gauge("mlxcel_prompt_cache_entries", "Entries of the prompt cache", load.cache_entries),
    ]


def _list_llama(metrics: Metrics, load: Load) -> list[str]:
    """Return llama-server's families, over every generation request that ran to its end."""
    totals, counted = metrics.finished, load.counters
    fresh_tokens = totals.prompt_tokens - totals.cached_tokens
    steps = counted["decode_steps"]
    return [
        counter(
            "llamacpp:prompt_tokens_total",
            "Number of prompt tokens processed, excluding cached tokens",
            fresh_tokens,
        ),
        counter(
            "llamacpp:prompt_tokens_cached_total",
            "Number of prompt tokens reused from the cache",
            totals.cached_tokens,
        ),
        counter(
            "llamacpp:prompt_seconds_total",
            "Total time spent processing prompts",
            _seconds(totals.prompt_ms),
        ),
        counter(
            "llamacpp:tokens_predicted_total",
            "Number of generation tokens processed",
            totals.completion_tokens,
        ),
        counter(
            "llamacpp:tokens_predicted_seconds_total",
            "Total time spent generating tokens",
            _seconds(totals.predicted_ms),
        ),
        counter("llamacpp:n_decode_total", "Total number of decode steps", steps),
        counter(
            "llamacpp:n_tokens_max",
            "Largest observed sequence length (prompt + generation)",
            totals.most_tokens,
        ),
        gauge(
            "llamacpp:prompt_tokens_seconds",
            "Average prompt throughput in tokens/s",
            _per_second(fresh_tokens, totals.prompt_ms),
        ),
        gauge(
            "llamacpp:predicted_tokens_seconds",
            "Average generation throughput in tokens/s",
            _per_second(totals.completion_tokens, totals.predicted_ms),
        ),
        gauge("llamacpp:requests_processing", "Number of requests processing", load.active),
        gauge("llamacpp:requests_deferred", "Number of requests deferred", load.queued),
        gauge(
            "llamacpp:n_busy_slots_per_decode",
            "Average number of busy slots per decode step",
            round(counted["decode_tokens"] / steps, 3) if steps else 0,
        ),
    ]


def _seconds(duration_ms: float) -> str:
    return f"{duration_ms / 1000:.3f}"


def _per_second(tokens: int, duration_ms: float) -> float:
    return round(tokens * 1000 / duration_ms, 3) if duration_ms else 0
