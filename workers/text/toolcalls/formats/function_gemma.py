"""Calls of FunctionGemma and of Gemma checkpoints with its template.

    <start_function_call>call:get_weather{city:<escape>Paris<escape>,days:2}<end_function_call>

Several calls follow one another. White space inside a block but outside strings is markup.
Source: FunctionGemma's chat template and formatting guide.
"""

from __future__ import annotations

from workers.text.toolcalls.format import Format
from workers.text.toolcalls.notation import NotationParser

_OPENING = "<start_function_call>"
_CLOSING = "<end_function_call>"
_MARK = "<escape>"

FORMAT = Format(
    name="function_gemma",
    markers=(_OPENING, _CLOSING, _MARK),
    detect=lambda template: _OPENING in template,
    parser=lambda tools: NotationParser(_OPENING, _CLOSING, _MARK, tools),
)
