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
from dataclasses import dataclass, field

from workers.text.toolcalls.arguments import cut_object, wrap_text
from workers.text.toolcalls.block import BlockParser, read_one
from workers.text.toolcalls.conversion import convert_value
from workers.text.toolcalls.format import Format, ParsedCall, Tools
from workers.text.toolcalls.reader.json_text import render_array, render_object
from workers.text.toolcalls.reader.literal import MAX_DEPTH
from workers.text.toolcalls.reader.source import Reading
from workers.text.toolcalls.schema import Schema
from workers.text.toolcalls.stream import strip_markers

_TOKEN = "]<]minimax[>["  # noqa: S105 - a delimiter
_OPENING = f"{_TOKEN}<tool_call>"
_CLOSING = f"{_TOKEN}</tool_call>"
_INVOKE = f"{_TOKEN}<invoke name="
_END_INVOKE = f"{_TOKEN}</invoke>"
_TAGS = ("<tool_call>", "</tool_call>", "<invoke name=", "</invoke>")
_MARKERS = (_OPENING, _CLOSING, _INVOKE, _END_INVOKE)
_NAME = re.compile(r"[^<>\[\]\r\n]+")
_TAG = re.compile(r"\s*<(/?)([^<>]+)>")
_ITEM = "item"


class MinimaxM3Parser(BlockParser):
    def __init__(self, tools: Tools) -> None:
        blocks = {_OPENING: (_CLOSING,), _INVOKE: (_CLOSING,)}
        super().__init__(blocks, _MARKERS, many=True)
        self._markers = (*_MARKERS, _TOKEN, *_TAGS)
        # The token begins the other markers.
        self._wanted = (_TOKEN, *_TAGS)
        self._tools = tools

    def _read(self) -> Reading[None]:
        while found := (yield from self._source.find(self._wanted, self._out.text)):
            tag = (yield from read_one(self._source, *_TAGS)) if found == _TOKEN else ""
            yield from self._source.skip_beginning(_TAGS)
            if found + tag in self._blocks:
                yield from self._read_block(found + tag)

    def _read_call(self) -> Reading[bool]:
        if self.opening != _INVOKE and not (yield from read_one(self._source, _INVOKE)):
            return False
        name = (yield from self._source.read_run(_NAME)).strip().strip("\"'")
        if not name or not (yield from read_one(self._source, ">")):
            return False
        parts: list[str] = []
        ends = (_END_INVOKE, _CLOSING, _INVOKE)
        if (yield from self._source.find(ends, parts.append, past=False, least=1)) == _END_INVOKE:
            self._source.skip(len(_END_INVOKE))
        parameters = self._tools.get(name, {})
        arguments = _read_body(
            "".join(parts), Schema(parameters, parameters), cut=self._source.cut_off
        )
        self._out.call(ParsedCall(name, arguments))
        return True


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


def _read_body(body: str, schema: Schema, *, cut: bool) -> str:
    """Return the JSON object of a call's elements; text that is none becomes `input`."""
    stack = [_Element("", schema)]
    before, *parts = body.split(_TOKEN)
    well_formed = not before.strip()
    for part in parts:
        tag = _TAG.match(part)
        text = part[tag.end() :] if tag else part
        # Behind the last token a tag may be cut off.
        well_formed = well_formed and (
            (part is parts[-1] and cut)
            if tag is None
            else _apply(stack, closes=bool(tag[1]), name=tag[2].strip(), text=text)
        )
    if not well_formed and not cut:
        return wrap_text(strip_markers(body, (_TOKEN,)))
    while len(stack) > 1 and not cut:
        _apply(stack, closes=True, name=stack[-1].name, text="")
    arguments = stack[0].members()
    return cut_object(arguments) if cut else arguments


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
    markers=(*_MARKERS, _TOKEN, *_TAGS),
    detect=lambda template: _TOKEN in template,
    parser=MinimaxM3Parser,
)
