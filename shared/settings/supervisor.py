"""Settings of the supervisors. Pure data."""

from __future__ import annotations

from dataclasses import dataclass

from shared.declaration import setting


@dataclass(frozen=True)
class SupervisorSettings:
    """Supervisor: when a process counts as hung."""

    step_timeout_s: int = setting(
        120,
        "Longest time one engine step may take before the worker is killed and restarted.",
        flags=("--step-timeout",),
        env=("MLXCEL_STEP_TIMEOUT",),
        unit="s",
        least=1,
    )
