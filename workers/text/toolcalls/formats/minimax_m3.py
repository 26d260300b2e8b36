"""Calls of MiniMax M3, in XML with the same token before every tag (here `¦`).

    ¦<tool_call>
    ¦<invoke name="get_weather">¦<city>Paris¦</city>
    ¦<days>¦<item>1¦</item>¦<item>2¦</item>¦</days>¦</invoke>
    ¦</tool_call>

The token is `]<]minimax[>[`. Tags name parameters and nest: members of objects, and `<item>` for
elements of arrays; an element without children holds a value as text. A block may hold several
`<invoke>` elements. White space between tags is markup; in a text it is part of the value.
Source: MiniMax M3's chat template as served by vLLM and SGLang.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from workers.text.toolcalls.block import BlockParser, read_one, read_up_to
from workers.text.toolcalls.conversion import convert_value
from workers.text.toolcalls.format import Format, ParsedCall, Tools
from workers.text.toolcalls.reader.json_text import render_array, render_object
from workers.text.toolcalls.reader.literal import MAX_DEPTH
from workers.text.toolcalls.reader.source import Reading
from workers.text.toolcalls.schema import Schema

_TOKEN = "]<]minimax[>["  # noqa: S105 - a delimiter
_OPENING = f"{_TOKEN}<tool_call>"
_CLOSING = f"{_TOKEN}</tool_call>"
_INVOKE = f"{_TOKEN}<invoke name="
_END_INVOKE = f"{_TOKEN}</invoke>"
_NAME = re.compile(r"[^<>\r\n]+")
_TAG = re.compile(r"\s*<(/?)([^<>]+)>")
_ITEM = "item"


class MinimaxM3Parser(BlockParser):
    def __init__(self, tools: Tools) -> None:
        super().__init__({_OPENING: (_CLOSING,)}, many=True)
        self._tools = tools

    def _read_calls(self) -> Reading[Sequence[ParsedCall] | None]:
        if not (yield from read_one(self._source, _INVOKE)):
            return None
        name = (yield from self._source.read_run(_NAME)).strip().strip("\"'")
        if not name or not (yield from read_one(self._source, ">")):
            return None
        body = yield from read_up_to(self._source, _END_INVOKE)
        parameters = self._tools.get(name, {})
        arguments = None if body is None else _read_body(body, Schema(parameters, parameters))
        return None if arguments is None else [ParsedCall(name, arguments)]


@dataclass
class _Element:
    name: str
    schema: Schema
    text: str = ""
    children: list[tuple[str, str]] = field(default_factory=list)

    def child(self, name: str) -> Schema:
        listed = name == _ITEM and ("array" in self.schema.kinds or not self.schema.kinds)
        return self.schema.element() if listed else self.schema.member(name)

    def value(self) -> str:
        kinds = self.schema.kinds
        if not self.children:
            if not self.text.strip() and kinds & {"array", "object"} and "string" not in kinds:
                return "[]" if "array" in kinds else "{}"
            return convert_value(self.text, self.schema)
        listed = all(name == _ITEM for name, _ in self.children)
        if listed and ("array" in kinds or not kinds):
            return render_array(value for _, value in self.children)
        return self.members()

    def members(self) -> str:
        """Return the children as a JSON object; children of equal names become an array."""
        named: dict[str, list[str]] = {}
        for name, value in self.children:
            named.setdefault(name, []).append(value)
        return render_object(
            {
                name: found[0] if len(found) == 1 else render_array(found)
                for name, found in named.items()
            }
        )


def _read_body(body: str, schema: Schema) -> str | None:
    """Return the JSON object of a call's elements; None if they are not well-formed."""
    stack = [_Element("", schema)]
    before, *parts = body.split(_TOKEN)
    if before.strip():
        return None
    for part in parts:
        tag = _TAG.match(part)
        text = part[tag.end() :] if tag else part
        if tag is None or not _apply(stack, closes=bool(tag[1]), name=tag[2].strip(), text=text):
            return None
    return stack[0].members() if len(stack) == 1 else None


def _apply(stack: list[_Element], *, closes: bool, name: str, text: str) -> bool:
    """Apply one tag and the text after it; return whether they are well-formed."""
    if not closes:
        if stack[-1].text.strip() or len(stack) > MAX_DEPTH:
            return False
        stack.append(_Element(name, stack[-1].child(name), text))
        return True
    if len(stack) == 1 or stack[-1].name != name or text.strip():
        return False
    element = stack.pop()
    stack[-1].children.append((name, element.value()))
    return True


FORMAT = Format(
    name="minimax_m3",
    markers=(
        _TOKEN,
        _OPENING,
        _CLOSING,
        "<tool_call>",
        "</tool_call>",
        "<invoke name=",
        "</invoke>",
    ),
    detect=lambda template: _TOKEN in template,
    parser=MinimaxM3Parser,
)
