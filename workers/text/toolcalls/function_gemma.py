"""Calls of FunctionGemma and of Gemma checkpoints with its template.

    <start_function_call>call:get_weather{city:<escape>Paris<escape>,days:2}<end_function_call>

Several calls follow one another. White space inside a block, outside of strings, is markup.
Source: FunctionGemma's chat template and formatting guide.
"""

from __future__ import annotations

from collections.abc import Sequence

from workers.text.toolcalls.format import Call, Format, Tools
from workers.text.toolcalls.notation import calls_of
from workers.text.toolcalls.quoted_block import QuotedBlockParser

_OPENING = "<start_function_call>"
_CLOSING = "<end_function_call>"
_MARK = "<escape>"


class FunctionGemmaParser(QuotedBlockParser):
    """Reads answers of these models."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(_OPENING, _CLOSING, (_MARK,))
        self._tools = tools

    def _calls_of(self, body: str) -> Sequence[Call] | None:
        return calls_of(body, _MARK, self._tools)


FORMAT = Format(
    name="function_gemma",
    markers=(_OPENING, _CLOSING, _MARK),
    detect=lambda template: _OPENING in template,
    parser=FunctionGemmaParser,
)
