"""Settings of the made-up kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from shared.declaration import Setting
from shared.settings.process import WIRE_WEIGHTS, KeepWarm, LogLevel, Wired


@dataclass(frozen=True)
class MeasureSettings:
    """Measure worker."""

    model: Annotated[str, Setting("--measure-model", "Folder of a model.")] = ""
    alias: Annotated[tuple[str, ...], Setting("--measure-alias", "Other names.")] = ()
    queue_depth: Annotated[int, Setting("--measure-queue-depth", "Calls at the worker.")] = 4
    wired: Wired = WIRE_WEIGHTS
    keep_warm: KeepWarm = True
    log_level: LogLevel = "info"
