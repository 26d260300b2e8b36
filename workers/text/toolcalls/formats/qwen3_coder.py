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
its closing tag are markup, and so is white space between tags. A value that begins on its own line
ends with a closing tag on one, so that the tag can stand inside it. The model is known to omit
tags: a declared function is a call without `<tool_call>`, and a declared parameter or the end
of the function ends the one before. Hermes' JSON between the same tags is accepted too.
Source: Qwen3-Coder's chat template.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from workers.text.toolcalls.arguments import read_arguments
from workers.text.toolcalls.block import BlockParser, read_one
from workers.text.toolcalls.conversion import convert, is_text
from workers.text.toolcalls.format import Format, Tools
from workers.text.toolcalls.reader.json_text import to_json
from workers.text.toolcalls.reader.source import Give, Reading

_OPENING = "<tool_call>"
_CLOSING = "</tool_call>"
_FUNCTION = "<function="
_END_FUNCTION = "</function>"
_PARAMETER = "<parameter="
_END_PARAMETER = "</parameter>"
_MARKERS = (_OPENING, _CLOSING, _FUNCTION, _END_FUNCTION, _PARAMETER, _END_PARAMETER)
_NAME = re.compile(r"[^<>\r\n]+")
# What ends a value without its own end.
_OTHER_ENDS = (_END_FUNCTION, _CLOSING)
_LINED_ENDS = (f"\n{_END_FUNCTION}", f"\n{_CLOSING}")
_NEXT = f"\n{_PARAMETER}"
_ENDS = (f"\n{_END_PARAMETER}", _END_PARAMETER, _NEXT, *_LINED_ENDS, *_OTHER_ENDS)


class Qwen3CoderParser(BlockParser):
    """Reads answers of these models."""

    def __init__(self, tools: Tools) -> None:
        blocks = {_OPENING: (_CLOSING,), _FUNCTION: (_CLOSING,)}
        super().__init__(blocks, _MARKERS, many=True, texts=(_FUNCTION,), streams=True)
        self._tools = tools

    def _read_call(self) -> Reading[bool]:
        alone = self.opening == _FUNCTION
        if not alone:
            if (yield from self._read_value()):
                return True
            if not (yield from read_one(self._source, _FUNCTION)):
                return False
        name = yield from self._read_name()
        if not name or (alone and not (yield from self._is_call(name))):
            return False
        self._out.start(name)
        yield from self._read_parameters(self._tools.get(name, {}))
        self._out.end()
        return True

    def _is_call(self, name: str) -> Reading[bool]:
        """Return whether a function without `<tool_call>` is a call, not text about tags."""
        if name in self._tools:
            return True
        yield from self._source.skip_space()
        return (yield from self._source.look((_PARAMETER, _END_FUNCTION))) != ""

    def _read_name(self) -> Reading[str]:
        """Read the rest of a tag; return the name in it, or "" if it is malformed."""
        name = yield from self._source.read_run(_NAME)
        if not (yield from read_one(self._source, ">")):
            return ""
        return name.strip()

    def _read_parameters(self, schema: Mapping[str, Any]) -> Reading[None]:
        """Read a function's parameters and its end."""
        joint = "{"
        while True:
            yield from self._source.skip_space()
            if not (yield from read_one(self._source, _PARAMETER)):
                break
            name = yield from self._read_name()
            if name:
                self._out.arguments(f"{joint}{to_json(name)}: ")
                joint = ", "
                if not (yield from self._read_parameter(schema, name)):
                    return
        tags = (_END_FUNCTION, _CLOSING, _OPENING, _FUNCTION)
        if not (yield from self._source.look(tags)):
            yield from self._source.skip_beginning((*tags, _PARAMETER))
            if self._source.cut_off:
                return
            if joint == "{":
                yield from read_arguments(self._source, self._out.arguments, _MARKERS)
                joint = ""
        if not self._source.cut_off:
            yield from read_one(self._source, _END_FUNCTION)
            self._out.arguments({"{": "{}", "": ""}.get(joint, "}"))

    def _read_parameter(self, schema: Mapping[str, Any], name: str) -> Reading[bool]:
        """Read a value and its end; return whether the end came."""
        lined = (yield from self._source.peek()) == "\n"
        if lined:
            self._source.skip()
        if is_text(schema, name):
            self._out.arguments('"')
            complete = yield from self._read_up_to_end(schema, self._give_text, lined=lined)
            self._out.arguments('"' if complete else "")
            return complete
        parts: list[str] = []
        complete = yield from self._read_up_to_end(schema, parts.append, lined=lined)
        text = "".join(parts)
        self._out.arguments(convert(text, schema, name) if complete else text)
        return complete

    def _read_up_to_end(
        self, schema: Mapping[str, Any], give: Give, *, lined: bool
    ) -> Reading[bool]:
        """Read a value up to its end and past it; return whether the end came."""
        while True:
            found = yield from self._source.find(_ENDS, give, past=False, least=1)
            if not found:
                return not self._source.cut_off
            self._source.keep()
            self._source.skip(len(found))
            if found == _ENDS[0] or (found == _END_PARAMETER and not lined):
                self._source.forget()
                return True
            is_end = yield from self._is_end(found, schema)
            self._source.rewind()
            if is_end and found != _END_PARAMETER:
                return True
            self._source.skip(len(found))
            if is_end:
                return True
            give(found)

    def _is_end(self, found: str, schema: Mapping[str, Any]) -> Reading[bool]:
        """Read on from what may end a value; return whether it does."""
        if found == _NEXT:
            name = yield from self._read_name()
            declared = schema.get("properties")
            return name != "" and (not isinstance(declared, Mapping) or name in declared)
        if found in (*_OTHER_ENDS, *_LINED_ENDS):
            # It is one if no end of a parameter follows in this call.
            after = yield from self._source.find((_END_PARAMETER, _FUNCTION), len)
            return after != _END_PARAMETER
        # The value began on its own line, but does not end on one.
        if not (yield from self._source.skip_space()):
            return True
        return (yield from self._source.look((_PARAMETER, *_OTHER_ENDS))) != ""

    def _give_text(self, text: str) -> None:
        self._out.arguments(to_json(text)[1:-1])


FORMAT = Format(
    name="qwen3_coder",
    markers=_MARKERS,
    detect=lambda template: _FUNCTION in template and _PARAMETER in template,
    parser=Qwen3CoderParser,
)
