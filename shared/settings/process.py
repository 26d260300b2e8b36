"""Settings that several kinds of processes share, each with one flag for all. Pure data."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from shared.declaration import Form, Setting
from shared.settings.value import parse_bytes

# Value of `wired` that wires the weights, whatever their size.
WIRE_WEIGHTS: Final = -1


def parse_wired(text: str) -> int:
    """Return the bytes of "auto", "off" or a size.

    Raises:
        ValueError: it is none of these.
    """
    words = {"auto": WIRE_WEIGHTS, str(WIRE_WEIGHTS): WIRE_WEIGHTS, "off": 0}
    found = words.get(text.strip().lower())
    return parse_bytes(text) if found is None else found


Offline = Annotated[
    bool,
    Setting("--offline LLAMA_ARG_OFFLINE", "Use models on disk only; never ask the hub."),
]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"],
    Setting("--log-level MLXCEL_LOG_LEVEL", "Lowest level of the log lines that are written."),
]
Wired = Annotated[
    int,
    Meta(ge=WIRE_WEIGHTS),
    Form("a size such as 12G, or auto or off", parse_wired),
    Setting(
        "--wired MLXCEL_WIRED",
        "On Metal, memory that macOS must keep resident. auto (-1): the weights; off (0): none. "
        "More than the weights also wires keys and values, which has crashed macOS.",
        unit="bytes",
    ),
]
KeepWarm = Annotated[
    bool,
    Setting(
        "--keep-warm MLXCEL_KEEP_WARM",
        "On Metal, run a tiny computation twice a second for three minutes after the last request, "
        "so that macOS keeps the model resident.",
    ),
]
