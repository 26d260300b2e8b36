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

from workers.text.toolcalls.arguments import read_arguments
from workers.text.toolcalls.block import read_one
from workers.text.toolcalls.format import Format, Tools
from workers.text.toolcalls.reader.source import Reading
from workers.text.toolcalls.stream import StreamParser

_OPENING = ">>>"
_USER = "all"
# The model's own tool, whose argument is code.
_BUILT_IN = ("python",)
_NAME = re.compile(r"[\w.-]+")


class Functionary32Parser(StreamParser):
    def __init__(self, tools: Tools) -> None:
        super().__init__((_OPENING,))
        self._tools = tools
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
        if not name or not (yield from read_one(self._source, "\n")):
            self._leave(opening)
        elif name == _USER:
            self._source.forget()
        elif name in (*self._tools, *_BUILT_IN) or (yield from self._source.skip_space()) == "{":
            self._source.forget()
            self._out.start(name)
            yield from read_arguments(self._source, self._out.arguments, (_OPENING,))
            self._out.end()
        else:
            self._leave(opening)

    def _leave(self, opening: str) -> None:
        """Give text that is no message as content; the delimiter alone is none."""
        text = self._source.release()
        ended = self._source.at_end
        if not self._source.cut_off and not (ended and text == opening):
            self._out.text(text)


FORMAT = Format(
    name="functionary32",
    markers=(_OPENING,),
    # The prompt ends with the marker, so calls and other answers begin with a bare name.
    begins=(),
    detect=lambda template: f"{_OPENING}{_USER}" in template,
    parser=Functionary32Parser,
)
