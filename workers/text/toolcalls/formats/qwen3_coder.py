"""Calls of Qwen3-Coder and of the Qwen models that share its template; they stream.

    <tool_call>
    <function=get_weather>
    <parameter=city>
    Paris
    </parameter>
    </function>
    </tool_call>

The arguments are composed: a parameter that the tool's schema declares as a string streams, any
other is converted once it is complete. One new line after a parameter's opening tag and one before
its closing tag are markup, and so is white space between tags. The model is known to omit tags: a
declared function is a call without `<tool_call>`, and the end of the text's last function ends its
last parameter. Hermes' JSON between the same tags is accepted too.
Source: Qwen3-Coder's chat template.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from workers.text.toolcalls.call_object import CallObject
from workers.text.toolcalls.conversion import convert, is_text
from workers.text.toolcalls.format import Format, Tools
from workers.text.toolcalls.reader.json_text import to_json
from workers.text.toolcalls.reader.source import Reading
from workers.text.toolcalls.stream import StreamParser

_OPENING = "<tool_call>"
_CLOSING = "</tool_call>"
_FUNCTION = "<function="
_END_FUNCTION = "</function>"
_PARAMETER = "<parameter="
_END_PARAMETER = "</parameter>"
_NAME = re.compile(r"[^<>\r\n]+")
# A value without a closing tag, up to the end of the text.
_UNCLOSED = re.compile(r"(.*?)\n?</function>\s*(?:</tool_call>\s*)?", re.DOTALL)


class Qwen3CoderParser(StreamParser):
    """Reads answers of these models."""

    def __init__(self, tools: Tools) -> None:
        super().__init__()
        self._tools = tools

    def _read(self) -> Reading[None]:
        # Whether the last block had calls and its closing delimiter is still expected.
        inside = False
        while True:
            wanted = (_OPENING, _FUNCTION, _CLOSING) if inside else (_OPENING, _FUNCTION)
            found = yield from self._source.find(wanted, self._out.text)
            if not found:
                return
            inside = found != _CLOSING and (yield from self._read_block(found))

    def _read_block(self, opening: str) -> Reading[bool]:
        """Read what follows an opening; return whether the closing is still expected."""
        self._source.keep(opening)
        found = opening
        if opening == _OPENING:
            found = yield from self._read_tag(_FUNCTION)
        started = (yield from self._read_object()) if not found else False
        while found == _FUNCTION:
            name = yield from self._read_name()
            if not name or (opening == _FUNCTION and name not in self._tools):
                break
            started = True
            complete = yield from self._read_call(name)
            if not complete:
                break
            found = yield from self._read_tag(_FUNCTION)
        if started and (yield from self._source.read_closing((_CLOSING,))):
            self._source.forget()
            return False
        self._out.text(self._source.release())
        return started

    def _read_object(self) -> Reading[bool]:
        """Read a JSON call if one comes next; return whether it did."""
        if (yield from self._source.peek()) != "{":
            return False
        call = CallObject(self._source, self._out)
        if (yield from call.read()):
            yield from self._source.skip_space()
        return call.started

    def _read_tag(self, tag: str) -> Reading[str]:
        """Read white space and the start of a tag if it comes next; return the start."""
        yield from self._source.skip_space()
        found = yield from self._source.look((tag,))
        self._source.skip(len(found))
        return found

    def _read_name(self) -> Reading[str]:
        """Read the rest of a tag; return the name in it, or "" if it is malformed."""
        name = yield from self._source.read_run(_NAME)
        if (yield from self._source.peek()) != ">":
            return ""
        self._source.skip()
        return name.strip()

    def _read_call(self, name: str) -> Reading[bool]:
        """Read a function's parameters up to its end; return whether the end came.

        The source keeps what was read but is not part of the call.
        """
        self._out.start(name)
        complete = yield from self._read_parameters(self._tools.get(name, {}))
        self._out.end()
        if complete or (yield from self._source.peek()) == "":
            self._source.keep()
        return complete

    def _read_parameters(self, schema: Mapping[str, Any]) -> Reading[bool]:
        joint = "{"
        self._source.keep()
        while (yield from self._read_tag(_PARAMETER)):
            name = yield from self._read_name()
            if not name:
                return False
            self._out.arguments(f"{joint}{to_json(name)}: ")
            joint = ", "
            complete = yield from self._read_value(schema, name)
            self._source.keep()
            if not complete:
                return False
        if not (yield from self._source.look((_CLOSING,))) and not (
            yield from self._source.read_closing((_END_FUNCTION,))
        ):
            return False
        self._out.arguments("{}" if joint == "{" else "}")
        return True

    def _read_value(self, schema: Mapping[str, Any], name: str) -> Reading[bool]:
        """Read a value and its closing tag; return whether the tag came."""
        if (yield from self._source.peek()) == "\n":
            self._source.skip()
        if is_text(schema, name):
            return (yield from self._read_text())
        self._source.keep()
        parts: list[str] = []
        if (yield from self._source.find((_END_PARAMETER,), parts.append)):
            text = "".join(parts).removesuffix("\n")
        elif unclosed := _UNCLOSED.fullmatch("".join(parts)):
            text = unclosed[1]
            self._source.rewind()
            self._source.skip(len(text))
        else:
            self._out.arguments("".join(parts))
            return False
        self._out.arguments(convert(text, schema, name))
        return True

    def _read_text(self) -> Reading[bool]:
        self._out.arguments('"')
        ends = (f"\n{_END_PARAMETER}", _END_PARAMETER, f"\n{_END_FUNCTION}")
        found = yield from self._source.find(ends, self._give_text)
        if found == ends[-1]:
            found = yield from self._read_doubtful(found)
        if found:
            self._out.arguments('"')
        return found != ""

    def _read_doubtful(self, end: str) -> Reading[str]:
        """Read on from an end that counts only if no closing tag follows; return the actual end."""
        self._source.keep(end)
        parts = [end]
        found = yield from self._source.find((_END_PARAMETER,), parts.append)
        text = "".join(parts)
        unclosed = _UNCLOSED.fullmatch(text)
        if found or not unclosed:
            self._give_text(text.removesuffix("\n") if found else text)
            return found
        self._source.rewind()
        self._source.skip(len(unclosed[1]))
        self._give_text(unclosed[1])
        return end

    def _give_text(self, text: str) -> None:
        self._out.arguments(to_json(text)[1:-1])


FORMAT = Format(
    name="qwen3_coder",
    markers=(_OPENING, _CLOSING, _FUNCTION, _END_FUNCTION, _PARAMETER, _END_PARAMETER),
    detect=lambda template: _FUNCTION in template and _PARAMETER in template,
    parser=Qwen3CoderParser,
)
