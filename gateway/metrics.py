"""Counters of the gateway: HTTP responses by route and code, and tokens and time of generation.

Owns the rules of counting. Counters of workers arrive in their heartbeats;
routes/operations/metrics.py renders both. Runs on the gateway's event loop.

A generation request counts once, when it has run to its end: one that fails, or whose client
disconnects, does not. The reference leaves streams of text completions out of its totals.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

import prometheus_client

from shared.pb import text_pb2 as pb

# Generation takes from a fraction of a second to many minutes.
_BUCKETS_S: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

# `_created` series double the size of the page for no use.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]


@dataclass
class Totals:
    """Sums over requests."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    prompt_ms: float = 0.0
    predicted_ms: float = 0.0
    # Prompt and completion tokens of the longest sequence.
    most_tokens: int = 0


class Metrics:
    """The counters of one gateway process.

    Attributes:
        started_unix_s: when the process started to count.
        registry: HTTP responses and their durations, by route.
        counted: sums over the requests that the reference counts.
        finished: sums over every generation request that ran to its end.
    """

    def __init__(self) -> None:
        self.started_unix_s = int(time.time())
        self.registry = prometheus_client.CollectorRegistry()
        self.counted = Totals()
        self.finished = Totals()
        self._answers = prometheus_client.Counter(
            "mlxcel_http_requests",
            "HTTP requests by route and outcome: ok, or the error code",
            ("route", "code"),
            registry=self.registry,
        )
        self._durations = prometheus_client.Histogram(
            "mlxcel_http_request_duration_seconds",
            "Time from a request to the end of its response",
            ("route",),
            buckets=_BUCKETS_S,
            registry=self.registry,
        )

    def note_answer(self, route: str, code: str, duration_s: float) -> None:
        """Count an HTTP request that has ended.

        Args:
            route: the declared path, which bounds the number of labels.
            code: of the error, or "ok".
        """
        self._answers.labels(route, code).inc()
        self._durations.labels(route).observe(duration_s)

    def note_finished(self, finished: pb.Finished, *, counted: bool) -> None:
        """Count a generation request that ran to its end.

        Args:
            counted: whether the reference counts it.
        """
        self._add(self.finished, finished)
        if counted:
            self._add(self.counted, finished)

    def note_inputs(self, prompt_tokens: int) -> None:
        """Count a request without generation, such as an embedding."""
        self.counted.requests += 1
        self.counted.prompt_tokens += prompt_tokens

    @staticmethod
    def _add(totals: Totals, finished: pb.Finished) -> None:
        usage, timings = finished.usage, finished.timings
        totals.requests += 1
        totals.prompt_tokens += usage.prompt_tokens
        totals.cached_tokens += usage.cached_tokens
        totals.completion_tokens += usage.completion_tokens
        totals.prompt_ms += timings.prompt_ms
        totals.predicted_ms += timings.predicted_ms
        length = usage.prompt_tokens + usage.completion_tokens
        totals.most_tokens = max(totals.most_tokens, length)
