"""Settings that several kinds of processes share, each with one flag for all. Pure data."""

from __future__ import annotations

from typing import Annotated, Literal

from shared.declaration import Setting

Offline = Annotated[
    bool,
    Setting("--offline LLAMA_ARG_OFFLINE", "Use models on disk only; never ask the hub."),
]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"],
    Setting("--log-level MLXCEL_LOG_LEVEL", "Lowest level of the log lines that are written."),
]
