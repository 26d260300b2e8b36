"""Calls of Command R models, in JSON, written in three ways.

    <|START_ACTION|>[{"tool_name": "get_weather", "parameters": {"city": …}}]<|END_ACTION|>

    Action: get_weather
    Action Input: {"city": "Paris"}

    Action:
    ```json
    [{"tool_name": "get_weather", "parameters": {"city": "Paris"}}]
    ```

`Action:` counts only at the beginning of a line; the line break before it is then markup, and so
is white space around names, JSON and the fence.
Source: the tool-use templates of Command R7B and Command R+; Cohere's prompting guides.
"""

from __future__ import annotations

from collections.abc import Sequence

from workers.text.toolcalls.block import (
    BlockParser,
    read_arguments,
    read_json,
    read_name,
    read_one,
)
from workers.text.toolcalls.format import Format, ParsedCall
from workers.text.toolcalls.json_call import parse_calls
from workers.text.toolcalls.reader.source import Reading

_OPENING = "<|START_ACTION|>"
_CLOSING = "<|END_ACTION|>"
_ACTION = "Action:"
_LINE = f"\n{_ACTION}"
_INPUT = "Action Input:"
_FENCE = "```"


class CommandRParser(BlockParser):
    def __init__(self) -> None:
        super().__init__({_OPENING: (_CLOSING,), _LINE: ()})

    def _read(self) -> Reading[None]:
        if (yield from read_one(self._source, _ACTION)):
            yield from self._read_block(_ACTION)
        yield from super()._read()

    def _read_calls(self) -> Reading[Sequence[ParsedCall] | None]:
        if self.opening == _OPENING:
            return (yield from self._read_list())
        if (yield from read_one(self._source, _FENCE)):
            yield from read_one(self._source, "json")
            calls = yield from self._read_list()
            end = yield from self._source.skip_space()
            return calls if not end or (yield from read_one(self._source, _FENCE)) else None
        if (yield from self._source.peek()) in ("[", "{"):
            return (yield from self._read_list())
        return (yield from self._read_lines())

    def _read_list(self) -> Reading[Sequence[ParsedCall] | None]:
        text = yield from read_json(self._source)
        return None if text is None else parse_calls(text, "tool_name", "parameters")

    def _read_lines(self) -> Reading[Sequence[ParsedCall] | None]:
        """Read a name and the arguments on the next line."""
        name = yield from read_name(self._source)
        yield from self._source.skip_space()
        if not name or not (yield from read_one(self._source, _INPUT)):
            return None
        arguments = yield from read_arguments(self._source)
        return None if arguments is None else [ParsedCall(name, arguments)]


def _detect(template: str) -> bool:
    return _OPENING in template or ("<|CHATBOT_TOKEN|>" in template and _ACTION in template)


FORMAT = Format(
    name="command_r",
    markers=(_OPENING, _CLOSING),
    detect=_detect,
    parser=lambda _: CommandRParser(),
)
