"""What all handlers share: settings, workers, metrics. Made once per process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aiohttp import web

from gateway.awake import KeepAwake
from gateway.dialects.base import Policy
from gateway.fleet.registry import Registry
from gateway.generation.generate import Generator
from gateway.http.auth import Keys
from gateway.metrics import Metrics
from shared.settings import GatewaySettings


@dataclass(frozen=True)
class Context:
    """The parts of the gateway that every handler may use.

    Attributes:
        start_timeout_s: after this long a stream without data sends its status line.
        body_timeout_s: longest wait for the next bytes of a body.
    """

    settings: GatewaySettings
    keys: Keys
    registry: Registry
    generator: Generator
    metrics: Metrics
    awake: KeepAwake
    start_timeout_s: float = 10.0
    body_timeout_s: float = 60.0

    @property
    def policy(self) -> Policy:
        """The settings that dialects depend on."""
        return Policy(
            reasoning_alias=self.settings.reasoning_alias_field == "reasoning",
            json_object=self.settings.json_object,
            prefill_assistant=self.settings.prefill_assistant,
            seed=self.settings.seed,
            forced_call_wins=self.settings.forced_choice_with_schema == "call",
            drops_builtin_tools=self.settings.builtin_tools == "drop",
            completions_delta=self.settings.completions_delta,
            caches_by_session=self.settings.prompt_cache_scope == "session",
        )

    @property
    def ping_s(self) -> float | None:
        """Interval of keep-alives in a silent stream; None for never."""
        interval_s = self.settings.sse_ping_interval_s
        return None if interval_s < 0 else float(interval_s)


CONTEXT: Final = web.AppKey("context", Context)
