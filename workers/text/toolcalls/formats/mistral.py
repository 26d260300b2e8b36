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

from workers.text.toolcalls.arguments import read_arguments
from workers.text.toolcalls.block import read_one
from workers.text.toolcalls.format import Format
from workers.text.toolcalls.json_block import JsonBlockParser
from workers.text.toolcalls.reader.source import Reading

_OPENING = "[TOOL_CALLS]"
_ID = "[CALL_ID]"
_ARGUMENTS = "[ARGS]"
_WORD = re.compile(r"[\w.-]+")


class MistralParser(JsonBlockParser):
    def __init__(self) -> None:
        super().__init__(_OPENING, "", (_OPENING, _ID, _ARGUMENTS))

    def _read_call(self) -> Reading[bool]:
        if (yield from self._read_value()):
            return True
        # The marker precedes the first name, so that `[ARGS]` is optional.
        first = self.opening != ""
        name = yield from self._source.read_run(_WORD)
        if not name or not (yield from self._read_separator(optional=first)):
            return False
        self._out.start(name)
        yield from read_arguments(self._source, self._out.arguments, (_OPENING, _ID, _ARGUMENTS))
        self._out.end()
        return True

    def _read_separator(self, *, optional: bool) -> Reading[bool]:
        """Read what stands between a name and its arguments; return whether it is there."""
        yield from self._source.skip_space()
        found = yield from read_one(self._source, _ID, _ARGUMENTS)
        if found == _ID:
            yield from self._source.read_run(_WORD)
            found = yield from read_one(self._source, _ARGUMENTS)
        if found:
            return True
        return optional and (yield from self._source.peek()) == "{"


FORMAT = Format(
    name="mistral",
    markers=(_OPENING, _ID, _ARGUMENTS),
    detect=lambda template: _OPENING in template and _ARGUMENTS in template,
    parser=lambda _: MistralParser(),
)
