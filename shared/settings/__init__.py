"""Every setting of every process: names, types, bounds, defaults and help.

`shared/config.py` finds their values; `--help`, docs/configuration.md and the comments of the
sample fleet file are printed from here. Names and defaults are those of the REST reference where
it has them. One module per group of settings; callers import the groups from here.
"""

from __future__ import annotations

from shared.settings.audio import AudioSettings
from shared.settings.encoder import EmbedSettings, RerankSettings
from shared.settings.gateway import GatewaySettings
from shared.settings.launch import LaunchSettings
from shared.settings.supervisor import SupervisorSettings
from shared.settings.text import TextSettings

__all__ = [
    "AudioSettings",
    "EmbedSettings",
    "GatewaySettings",
    "LaunchSettings",
    "RerankSettings",
    "SupervisorSettings",
    "TextSettings",
]
