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

from workers.text.toolcalls.arguments import read_arguments
from workers.text.toolcalls.block import BlockParser, read_name, read_one
from workers.text.toolcalls.format import Format
from workers.text.toolcalls.reader.source import Reading

_OPENING = "<|START_ACTION|>"
_CLOSING = "<|END_ACTION|>"
_ACTION = "Action:"
_LINE = f"\n{_ACTION}"
_INPUT = "Action Input:"
_FENCE = "```"


class CommandRParser(BlockParser):
    def __init__(self) -> None:
        blocks = {_OPENING: (_CLOSING,), _LINE: (), _ACTION: ()}
        super().__init__(blocks, (_OPENING, _CLOSING), many=True, texts=(_LINE, _ACTION))
        # `Action:` is a delimiter only at the beginning of a line.
        self._wanted = (_OPENING, _CLOSING, _LINE)

    def _read(self) -> Reading[None]:
        if (yield from read_one(self._source, _ACTION)):
            yield from self._read_block(_ACTION)
        yield from super()._read()

    def _read_call(self) -> Reading[bool]:
        if self.opening in ("", _OPENING):
            return (yield from self._read_value())
        if (yield from read_one(self._source, _FENCE)):
            yield from read_one(self._source, "json")
            yield from self._source.skip_space()
            called = yield from self._read_value()
            yield from self._source.skip_space()
            yield from read_one(self._source, _FENCE)
            yield from self._source.skip_beginning((_FENCE,))
            return called
        return (yield from self._read_value()) or (yield from self._read_lines())

    def _read_lines(self) -> Reading[bool]:
        """Read a name and the arguments on the next line."""
        name = yield from read_name(self._source)
        yield from self._source.skip_space()
        if not name or not (yield from read_one(self._source, _INPUT)):
            return False
        self._out.start(name)
        ends = ("\n", _OPENING, _CLOSING)
        yield from read_arguments(self._source, self._out.arguments, ends)
        self._out.end()
        return True


def _detect(template: str) -> bool:
    return _OPENING in template or ("<|CHATBOT_TOKEN|>" in template and _ACTION in template)


FORMAT = Format(
    name="command_r",
    markers=(_OPENING, _CLOSING),
    detect=_detect,
    parser=lambda _: CommandRParser(),
)
