"""Calls of GPT-OSS: messages to a function in the Harmony format.

    <|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": …}<|call|>
    <|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>{…}<|call|>

The prompt ends with `<|start|>assistant`, so the answer may begin with ` to=`. Messages to the user
are content; their headers and ends are markup. Reasoning (the analysis channel) is split off
before this parser, by `workers.text.answer.channel`; otherwise it is content, markup included.
White space around arguments is markup; missing arguments are `{}`.
Source: docs/format.md of openai/harmony.
"""

from __future__ import annotations

import re

from workers.text.toolcalls.block import read_arguments, read_one
from workers.text.toolcalls.format import Format, ParsedCall
from workers.text.toolcalls.reader.source import Reading
from workers.text.toolcalls.stream import StreamParser

START = "<|start|>"
CHANNEL = "<|channel|>"
MESSAGE = "<|message|>"
ENDS = ("<|end|>", "<|call|>", "<|return|>")
# The start of an answer that continues the header begun by the prompt.
RECIPIENT = " to="
ANALYSIS = "analysis"

_CHANNEL_NAME = re.compile(rf"{re.escape(CHANNEL)}\s*(\w+)")
_RECIPIENT_NAME = re.compile(r"\bto=([^\s<]+)")


def parse_channel(header: str) -> str:
    """Return the channel named by a message's header; "" if none."""
    match = _CHANNEL_NAME.search(header)
    return match[1] if match else ""


def parse_recipient(header: str) -> str:
    """Return the function that a message is addressed to; "" if it is for the user."""
    match = _RECIPIENT_NAME.search(header)
    return match[1].removeprefix("functions.") if match else ""


class HarmonyParser(StreamParser):
    def _read(self) -> Reading[None]:
        opening = yield from read_one(self._source, RECIPIENT)
        while True:
            if not opening:
                opening = yield from self._source.find((START, CHANNEL), self._out.text)
            if not opening:
                return
            opening = yield from self._read_message(opening)

    def _read_message(self, opening: str) -> Reading[str]:
        """Read what follows an opening; return the next message's opening if it was read."""
        self._source.keep(opening)
        parts: list[str] = [opening]
        if (yield from self._source.find((MESSAGE, *ENDS), parts.append)) != MESSAGE:
            self._out.text(self._source.release())
            return ""
        header = "".join(parts)
        function = parse_recipient(header)
        if function:
            yield from self._read_call(function)
            return ""
        if parse_channel(header) == ANALYSIS:
            self._out.text(self._source.release())
            self._out.text((yield from self._source.find(ENDS, self._out.text)))
            return ""
        self._source.forget()
        found = yield from self._source.find((START, CHANNEL, *ENDS), self._out.text)
        return "" if found in ENDS else found

    def _read_call(self, name: str) -> Reading[None]:
        """Read a message to a function; if it is not a call it is content with its header."""
        yield from self._source.skip_space()
        bare = yield from self._source.look(ENDS)
        arguments = "{}" if bare else (yield from read_arguments(self._source))
        ended = yield from self._read_end()
        if arguments is None or not ended:
            self._out.text(self._source.release())
            return
        self._source.forget()
        self._out.call(ParsedCall(name, arguments))

    def _read_end(self) -> Reading[bool]:
        """Read the end of a message; return whether the message ends here."""
        if not (yield from self._source.skip_space()) or (yield from read_one(self._source, *ENDS)):
            return True
        return (yield from self._source.look((START, CHANNEL))) != ""


FORMAT = Format(
    name="harmony",
    markers=(START, CHANNEL, MESSAGE, "<|constrain|>", *ENDS),
    detect=lambda template: CHANNEL in template and MESSAGE in template,
    parser=lambda _: HarmonyParser(),
)
