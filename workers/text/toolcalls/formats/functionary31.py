"""Calls of Functionary v3.1: JSON arguments between tags that hold the name.

    <function=get_weather>{"city": "Paris"}</function>

Several calls follow one another. White space around the arguments is markup.
Source: Functionary's template v3-llama3.1.
"""

from __future__ import annotations

from collections.abc import Sequence

from workers.text.toolcalls.block import BlockParser, read_arguments, read_name, read_one
from workers.text.toolcalls.format import Format, ParsedCall
from workers.text.toolcalls.reader.source import Reading

_OPENING = "<function="
_CLOSING = "</function>"


class Functionary31Parser(BlockParser):
    def __init__(self) -> None:
        super().__init__({_OPENING: (_CLOSING,)})

    def _read_calls(self) -> Reading[Sequence[ParsedCall] | None]:
        name = yield from read_name(self._source)
        if not name or not (yield from read_one(self._source, ">")):
            return None
        arguments = yield from read_arguments(self._source)
        return None if arguments is None else [ParsedCall(name, arguments)]


def _detect(template: str) -> bool:
    # Qwen3-Coder puts parameters in such tags.
    return _OPENING in template and "<parameter=" not in template


FORMAT = Format(
    name="functionary31",
    markers=(_OPENING, _CLOSING),
    detect=_detect,
    parser=lambda _: Functionary31Parser(),
)
