"""Calls of Functionary v3.2: a line that names the recipient, then JSON arguments.

    >>>all
    Let me look.>>>get_weather
    {"city": "Paris"}>>>get_time
    {"zone": "CET"}

The recipient `all` is the user: the text after it is content. The prompt ends with the first
`>>>`, so the answer may begin with a name: `all` or a declared function. Recipient lines are
markup, and so is white space between such a line and the arguments; text after complete arguments
is content.
Source: Functionary's template v3.llama3.
"""

from __future__ import annotations

import re

from workers.text.toolcalls.block import read_arguments, read_one
from workers.text.toolcalls.format import Format, ParsedCall, Tools
from workers.text.toolcalls.reader.source import Reading
from workers.text.toolcalls.stream import StreamParser

_OPENING = ">>>"
_USER = "all"
_NAME = re.compile(r"[\w.-]+")


class Functionary32Parser(StreamParser):
    def __init__(self, tools: Tools) -> None:
        super().__init__()
        self._first = tuple(f"{name}\n" for name in {_USER, *tools})

    def _read(self) -> Reading[None]:
        if (yield from self._source.look(self._first)):
            yield from self._read_message("")
        while (yield from self._source.find((_OPENING,), self._out.text)):
            # Of more than three `>`, the last three are the delimiter.
            while (yield from read_one(self._source, ">")):
                self._out.text(">")
            yield from self._read_message(_OPENING)

    def _read_message(self, opening: str) -> Reading[None]:
        """Read a recipient line, and the arguments of a call if it names a function."""
        self._source.keep(opening)
        name = yield from self._source.read_run(_NAME)
        if name and (yield from read_one(self._source, "\n")):
            if name == _USER:
                self._source.forget()
                return
            arguments = yield from read_arguments(self._source)
            if arguments is not None:
                self._source.forget()
                self._out.call(ParsedCall(name, arguments))
                return
        self._out.text(self._source.release())


FORMAT = Format(
    name="functionary32",
    markers=(_OPENING,),
    detect=lambda template: f"{_OPENING}{_USER}" in template,
    parser=Functionary32Parser,
)
