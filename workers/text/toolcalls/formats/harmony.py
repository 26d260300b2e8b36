"""Calls of GPT-OSS: messages to a function in the Harmony format.

    <|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": …}<|call|>
    <|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>{…}<|call|>

The prompt ends with `<|start|>assistant`, so the answer may begin with ` to=`. Messages to the user
are content; their headers and ends are markup. Reasoning (the analysis channel) is split off
before this parser, by `workers.text.answer.channel`; otherwise it is content.
White space around arguments is markup; missing arguments are `{}`, and code for a built-in tool is
the argument `input`.
Source: docs/format.md of openai/harmony.
"""

from __future__ import annotations

import re

from workers.text.toolcalls.arguments import read_arguments
from workers.text.toolcalls.block import read_one
from workers.text.toolcalls.format import Format
from workers.text.toolcalls.reader.source import Reading
from workers.text.toolcalls.stream import StreamParser

START = "<|start|>"
CHANNEL = "<|channel|>"
MESSAGE = "<|message|>"
ENDS = ("<|end|>", "<|call|>", "<|return|>")
# The start of an answer that continues the header begun by the prompt.
RECIPIENT = " to="
ANALYSIS = "analysis"

# The start of a message, or of the rest of its header.
OPENINGS = (START, CHANNEL, RECIPIENT)
_MARKERS = (START, CHANNEL, MESSAGE, "<|constrain|>", *ENDS)
# Recipients that are no functions; a tool's result is addressed to the assistant.
_PEOPLE = ("assistant", "user", "all")

_CHANNEL_NAME = re.compile(rf"{re.escape(CHANNEL)}\s*(\w+)")
_RECIPIENT_NAME = re.compile(r"\bto=([^\s<]+)")


def parse_channel(header: str) -> str:
    """Return the channel named by a message's header; "" if none."""
    match = _CHANNEL_NAME.search(header)
    return match[1] if match else ""


def parse_recipient(header: str) -> str:
    """Return the function that a message is addressed to; "" if it is for the user."""
    match = _RECIPIENT_NAME.search(header)
    name = match[1].removeprefix("functions.") if match else ""
    return "" if name in _PEOPLE else name


class HarmonyParser(StreamParser):
    def __init__(self) -> None:
        super().__init__(_MARKERS)

    def _read(self) -> Reading[None]:
        opening = yield from read_one(self._source, RECIPIENT)
        while True:
            if not opening:
                opening = yield from self._source.find(_MARKERS, self._out.text)
            if not opening:
                return
            if opening in OPENINGS:
                opening = yield from self._read_message(opening)
            else:
                opening = ""

    def _read_message(self, opening: str) -> Reading[str]:
        """Read what follows an opening; return the next message's opening if it was read."""
        parts: list[str] = [opening]
        found = yield from self._source.find((MESSAGE, START, *ENDS), parts.append)
        if found != MESSAGE:
            return found if found == START else ""
        name = parse_recipient("".join(parts))
        if not name:
            found = yield from self._source.find((START, CHANNEL, *ENDS), self._out.text)
            return "" if found in ENDS else found
        self._out.start(name)
        yield from read_arguments(self._source, self._out.arguments, _MARKERS)
        self._out.end()
        yield from self._source.skip_space()
        return ""


FORMAT = Format(
    name="harmony",
    markers=_MARKERS,
    # The header of a message tells: see `workers.text.answer.channel`.
    begins=(),
    detect=lambda template: CHANNEL in template and MESSAGE in template,
    parser=lambda _: HarmonyParser(),
)
