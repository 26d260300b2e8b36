"""Calls of Gemma 4, in the notation of notation.py with its own marks.

    <|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:2}<tool_call|>

Several calls follow one another. White space inside a block but outside strings is markup.
Source: Gemma 4's chat template.
"""

from __future__ import annotations

from workers.text.toolcalls.format import Format
from workers.text.toolcalls.notation import NotationParser

_OPENING = "<|tool_call>"
_CLOSING = "<tool_call|>"
_MARK = '<|"|>'

FORMAT = Format(
    name="gemma4",
    markers=(_OPENING, _CLOSING, _MARK),
    detect=lambda template: _OPENING in template and _CLOSING in template,
    parser=lambda tools: NotationParser(_OPENING, _CLOSING, _MARK, tools),
)
