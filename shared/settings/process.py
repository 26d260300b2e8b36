"""Settings that processes of several kinds have, by one flag for all. Pure data.

Functions, as a field belongs to the class it was made for.
"""

from __future__ import annotations

from typing import Any

from shared.declaration import setting


def offline() -> Any:
    """Whether weights may be fetched."""
    return setting(
        False,
        "Never ask the Hugging Face hub; use what is on disk.",
        flags=("--offline",),
        env=("LLAMA_ARG_OFFLINE",),
    )


def log_level() -> Any:
    """How much to log."""
    return setting(
        "info",
        "How much to log.",
        flags=("--log-level",),
        env=("MLXCEL_LOG_LEVEL",),
        choices=("debug", "info", "warning", "error"),
    )
