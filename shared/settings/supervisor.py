"""Settings of the supervisors. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from shared.declaration import Setting


@dataclass(frozen=True)
class SupervisorSettings:
    """Supervisor."""

    step_timeout_s: Annotated[
        int,
        Meta(ge=1),
        Setting(
            "--step-timeout MLXCEL_STEP_TIMEOUT",
            "Restart a worker whose step makes no progress for longer.",
            unit="s",
        ),
    ] = 120
