"""Tool-call formats: one module each, tried in this order on a chat template."""

from __future__ import annotations

from workers.text.toolcalls import (
    generic_json,
    hermes,
    llama3,
    mistral,
    mistral_nemo,
    qwen3_coder,
)
from workers.text.toolcalls.format import Format

FORMATS: tuple[Format, ...] = (
    hermes.FORMAT,
    mistral.FORMAT,
    mistral_nemo.FORMAT,
    qwen3_coder.FORMAT,
    llama3.FORMAT,
    generic_json.FORMAT,
)


def find(name: str) -> Format | None:
    """Return the format of a name."""
    return next((entry for entry in FORMATS if entry.name == name), None)


def detect(template: str) -> Format | None:
    """Return the format in which a chat template writes calls; None if it knows no tools."""
    return next((entry for entry in FORMATS if entry.detect(template)), None)
