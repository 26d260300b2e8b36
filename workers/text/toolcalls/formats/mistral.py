"""Calls of Mistral models that write each name before its arguments; they stream.

    [TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}

Further calls repeat the whole or only the part after the marker. An id may stand between name and
arguments (`[CALL_ID]a1b2c3d4e`), `[ARGS]` may be missing, and the JSON list of older models is
accepted too. White space around a name and before the arguments is markup; after the last call it
is content.
Source: the chat templates of Mistral Small 3.x, Magistral, Devstral and Ministral 3.
"""

from __future__ import annotations

import re

from workers.text.toolcalls.format import Format
from workers.text.toolcalls.json_block import JsonBlockParser
from workers.text.toolcalls.reader.json_scanner import read_value
from workers.text.toolcalls.reader.source import Reading

_OPENING = "[TOOL_CALLS]"
_ID = "[CALL_ID]"
_ARGUMENTS = "[ARGS]"
_WORD = re.compile(r"[\w.-]+")


class MistralParser(JsonBlockParser):
    def __init__(self) -> None:
        super().__init__(_OPENING, "")

    def _read_block(self, opening: str) -> Reading[bool]:
        self._source.keep(opening)
        if (yield from self._source.skip_space()) in ("[", "{"):
            return (yield from self._read_objects())
        name = yield from self._read_name(first=True)
        while name:
            self._source.forget()
            self._out.start(name)
            complete = yield from self._read_arguments()
            self._out.end()
            self._source.keep()
            if not complete:
                break
            yield from self._source.skip_space()
            name = yield from self._read_name(first=False)
        self._out.text(self._source.release())
        return False

    def _read_name(self, *, first: bool) -> Reading[str]:
        """Read a name and the separator before its arguments; return "" without a separator.

        Args:
            first: the marker precedes the name, so `[ARGS]` is optional.
        """
        name = yield from self._source.read_run(_WORD)
        yield from self._source.skip_space()
        found = yield from self._source.look((_ID, _ARGUMENTS))
        self._source.skip(len(found))
        if found == _ID:
            yield from self._source.read_run(_WORD)
            found = yield from self._source.look((_ARGUMENTS,))
            self._source.skip(len(found))
        if found != _ARGUMENTS and not (first and (yield from self._source.peek()) == "{"):
            return ""
        return name

    def _read_arguments(self) -> Reading[bool]:
        if (yield from self._source.skip_space()) != "{":
            return False
        return (yield from read_value(self._source, self._out.arguments))


FORMAT = Format(
    name="mistral",
    markers=(_OPENING, _ID, _ARGUMENTS),
    detect=lambda template: _OPENING in template and _ARGUMENTS in template,
    parser=lambda _: MistralParser(),
)
