"""Calls of Gemma 4, in a notation of its own.

    <|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:2}<tool_call|>

Several calls follow one another. White space inside a block, outside of strings, is markup.
Source: Gemma 4's chat template.
"""

from __future__ import annotations

from collections.abc import Sequence

from workers.text.toolcalls.format import Call, Format, Tools
from workers.text.toolcalls.notation import calls_of
from workers.text.toolcalls.quoted_block import QuotedBlockParser

_OPENING = "<|tool_call>"
_CLOSING = "<tool_call|>"
_MARK = '<|"|>'


class Gemma4Parser(QuotedBlockParser):
    """Reads answers of these models."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(_OPENING, _CLOSING, (_MARK,))
        self._tools = tools

    def _calls_of(self, body: str) -> Sequence[Call] | None:
        return calls_of(body, _MARK, self._tools)


FORMAT = Format(
    name="gemma4",
    markers=(_OPENING, _CLOSING, _MARK),
    detect=lambda template: _OPENING in template and _CLOSING in template,
    parser=Gemma4Parser,
)
