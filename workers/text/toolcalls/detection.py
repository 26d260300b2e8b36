"""The table of tool-call formats, in the order in which they are tried on a chat template."""

from __future__ import annotations

from workers.text.toolcalls.format import Format
from workers.text.toolcalls.formats import (
    command_r,
    deepseek,
    function_gemma,
    functionary31,
    functionary32,
    gemma4,
    generic_json,
    glm47,
    granite,
    harmony,
    hermes,
    kimi_k2,
    llama3,
    longcat,
    minimax_m2,
    minimax_m3,
    mistral,
    mistral_nemo,
    pythonic,
    qwen3_coder,
)

FORMATS: tuple[Format, ...] = (
    harmony.FORMAT,
    minimax_m3.FORMAT,
    glm47.FORMAT,
    longcat.FORMAT,
    granite.FORMAT,
    gemma4.FORMAT,
    function_gemma.FORMAT,
    hermes.FORMAT,
    minimax_m2.FORMAT,
    kimi_k2.FORMAT,
    deepseek.FORMAT,
    mistral.FORMAT,
    mistral_nemo.FORMAT,
    functionary31.FORMAT,
    qwen3_coder.FORMAT,
    functionary32.FORMAT,
    command_r.FORMAT,
    pythonic.FORMAT,
    llama3.FORMAT,
    generic_json.FORMAT,
)


def find(name: str) -> Format | None:
    """Return the format with a name."""
    return next((call_format for call_format in FORMATS if call_format.name == name), None)


def detect(template: str) -> Format | None:
    """Return the format in which a chat template writes calls; None if it has no tools."""
    return next((call_format for call_format in FORMATS if call_format.detect(template)), None)
