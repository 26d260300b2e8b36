"""What handlers share: settings, workers, and the path through them. Made once per process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from gateway.dialects.base import Policy
from gateway.fleet.registry import Registry
from gateway.generation.generate import Generator
from gateway.http.auth import Keys
from gateway.metrics import Metrics
from gateway.responses.turn import ResponseTurn
from gateway.state.archive import ResponseArchive
from shared.settings import GatewaySettings


@dataclass(frozen=True)
class Context:
    """Everything a handler may reach.

    Attributes:
        start_timeout_s: how long an admitted stream may stay without a status line.
        body_timeout_s: how long the next bytes of a body may take to come.
        turns: responses that are being streamed, by their ids.
    """

    settings: GatewaySettings
    keys: Keys
    registry: Registry
    generator: Generator
    archive: ResponseArchive
    metrics: Metrics
    start_timeout_s: float = 10.0
    body_timeout_s: float = 60.0
    turns: dict[str, ResponseTurn] = field(default_factory=dict)

    @property
    def policy(self) -> Policy:
        """What dialects are told of the settings."""
        return Policy(
            reasoning_alias=self.settings.reasoning_alias_field == "reasoning",
            json_object=self.settings.json_object,
            prefill_assistant=self.settings.prefill_assistant,
            seed=self.settings.seed,
        )

    @property
    def ping_s(self) -> float | None:
        """Silence after which a stream gets a comment; None for never."""
        interval_s = self.settings.sse_ping_interval_s
        return None if interval_s < 0 else float(interval_s)


CONTEXT: Final = web.AppKey("context", Context)
