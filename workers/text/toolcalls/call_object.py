"""Reads one call written as a JSON object, `{"name": …, "arguments": …}`.

Only the first name and the first arguments count; other members are skipped. Some models write
`tool_name` and `parameters`. Arguments that precede the name are held until it is known. An object
as arguments keeps the model's text, a string is decoded, `null` or no arguments become `{}`, and
any other value becomes the member `input`. If the object breaks off after the arguments, the rest
of the text is content.
"""

from __future__ import annotations

from workers.text.toolcalls.arguments import QuotedArguments, wrap_text
from workers.text.toolcalls.reader.json_scanner import read_value
from workers.text.toolcalls.reader.json_string import read_string, read_text
from workers.text.toolcalls.reader.source import Reading, Source
from workers.text.toolcalls.stream import PieceBuffer

_NAMES = ("name", "tool_name")
_ARGUMENTS = ("arguments", "parameters")
# Members of a call without a delimiter. An object with any other key is not a call.
_BARE_MEMBERS = ("name", *_ARGUMENTS, "type", "id")


class CallObject:
    """Reads one object.

    Args:
        bare: no delimiter announces the call, so a name alone is not enough: the object must
            also have arguments, as an object or a string.

    Attributes:
        started: whether it is a call. After `read` the call has ended, and the source keeps the
            text that was read but is not part of it.
    """

    def __init__(self, source: Source, out: PieceBuffer, *, bare: bool = False) -> None:
        self._source = source
        self._out = out
        self._bare = bare
        self._quotes = '"' if bare else "\"'"
        self._name = ""
        self._held: list[str] = []
        self._has_arguments = False
        self._has_text = False
        self._keeps = False
        self.started = False

    def read(self) -> Reading[bool]:
        """Read from the opening brace; return whether the closing one was reached."""
        complete = yield from self._read_members()
        if not self.started:
            return complete
        # A member cut off by the end of the text is not content.
        if complete or not self._keeps or (yield from self._source.peek()) == "":
            self._source.keep()
        if not self._has_text and (complete or not self._source.cut_off):
            self._out.arguments("{}")
        self._out.end()
        return complete

    def _read_members(self) -> Reading[bool]:
        self._source.skip()
        char = yield from self._source.skip_space()
        while char and char in self._quotes:
            if not (yield from self._read_member()):
                return False
            if self.started:
                self._source.keep()
                self._keeps = True
            char = yield from self._source.skip_space()
            if char != ",":
                break
            self._source.skip()
            char = yield from self._source.skip_space()
        if char != "}":
            return False
        self._source.skip()
        return True

    def _read_member(self) -> Reading[bool]:
        """Read a key and its value; return whether both are valid."""
        key = yield from read_text(self._source)
        if key is None or (self._bare and key not in _BARE_MEMBERS):
            return False
        if (yield from self._source.skip_space()) != ":":
            return False
        self._source.skip()
        char = yield from self._source.skip_space()
        if key in _NAMES and not self._name:
            return (yield from self._read_name(char))
        if key in _ARGUMENTS and not self._has_arguments:
            return (yield from self._read_arguments(char))
        return (yield from read_value(self._source, len))

    def _read_name(self, char: str) -> Reading[bool]:
        if not char or char not in self._quotes:
            return False
        self._name = (yield from read_text(self._source)) or ""
        self._start_if_known()
        return self._name != ""

    def _read_arguments(self, char: str) -> Reading[bool]:
        quoted = char != "" and char in self._quotes
        if not char or (self._bare and not quoted and char != "{"):
            return False
        self._has_arguments = True
        self._start_if_known()
        if self.started:
            self._source.forget()
            self._keeps = False
        if char == "{":
            return (yield from read_value(self._source, self._give))
        if quoted:
            return (yield from self._read_quoted(char))
        value: list[str] = []
        complete = yield from read_value(self._source, value.append)
        if complete:
            self._give(wrap_text("".join(value)))
        return complete

    def _read_quoted(self, mark: str) -> Reading[bool]:
        arguments = QuotedArguments(self._give)
        self._source.skip()
        closed = yield from read_string(self._source, arguments.feed, mark)
        arguments.finish(cut=not closed and self._source.cut_off)
        return closed

    def _start_if_known(self) -> None:
        if self.started or not self._name or (self._bare and not self._has_arguments):
            return
        self.started = True
        self._out.start(self._name)
        for text in self._held:
            self._out.arguments(text)

    def _give(self, text: str) -> None:
        if not text:
            return
        self._has_text = True
        if self.started:
            self._out.arguments(text)
        else:
            self._held.append(text)
