"""Calls of Functionary v3.1: JSON arguments between tags that hold the name.

    <function=get_weather>{"city": "Paris"}</function>

Several calls follow one another. White space around the arguments is markup. A tag without
arguments is text about tags.
Source: Functionary's template v3-llama3.1.
"""

from __future__ import annotations

from workers.text.toolcalls.arguments import read_arguments
from workers.text.toolcalls.block import BlockParser, read_name, read_one
from workers.text.toolcalls.format import Format
from workers.text.toolcalls.reader.source import Reading

_OPENING = "<function="
_CLOSING = "</function>"


class Functionary31Parser(BlockParser):
    def __init__(self) -> None:
        super().__init__({_OPENING: (_CLOSING,)}, (_OPENING, _CLOSING), texts=(_OPENING,))

    def _read_call(self) -> Reading[bool]:
        name = yield from read_name(self._source)
        if not name or not (yield from read_one(self._source, ">")):
            return False
        empty = yield from self._source.skip_space()
        if empty and empty != "{" and not (yield from self._source.look((_CLOSING,))):
            return False
        self._out.start(name)
        yield from read_arguments(self._source, self._out.arguments, (_CLOSING,))
        self._out.end()
        return True


def _detect(template: str) -> bool:
    # Qwen3-Coder puts parameters in such tags.
    return _OPENING in template and "<parameter=" not in template


FORMAT = Format(
    name="functionary31",
    markers=(_OPENING, _CLOSING),
    detect=_detect,
    parser=lambda _: Functionary31Parser(),
)
