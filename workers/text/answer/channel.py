"""Splits answers in channels, as GPT-OSS writes them in the Harmony format.

The analysis channel is reasoning; messages to the user on any other channel are the answer,
without their headers and ends; messages to functions are passed on unchanged, for the parser of
tool calls. A header cut off by the end of the text is dropped. The result depends only on the
whole text, not on where it was cut. Pure.
"""

from __future__ import annotations

from workers.text.answer.reasoning import AnswerPart, Part, ReasoningPart, Tags
from workers.text.toolcalls.formats.harmony import (
    ANALYSIS,
    CHANNEL,
    ENDS,
    MESSAGE,
    OPENINGS,
    RECIPIENT,
    START,
    parse_channel,
    parse_recipient,
)
from workers.text.toolcalls.reader.json_scanner import read_value
from workers.text.toolcalls.reader.source import Reading, Source, partial_length

_MARKERS = (START, CHANNEL, MESSAGE, *ENDS)
# The end of the prompt.
_PROMPT = f"{START}assistant"
# The answer's header ends the reasoning: another message could be reasoning again.
TAGS = Tags(f"{CHANNEL}{ANALYSIS}{MESSAGE}", f"{ENDS[0]}{_PROMPT}{CHANNEL}final{MESSAGE}")


class ChannelSplitter:
    """Splits by channels; a `workers.text.answer.reasoning.Splitter`.

    Args:
        passes_calls: pass messages to functions on; otherwise only their text.

    Attributes:
        in_reasoning: whether the next text belongs to reasoning or to a header; true at the start.
        answer_begun: whether the answer has begun. Reasoning may still follow.
        in_call: whether the next text belongs to a message to a function that is passed on.
        held: the part of the closing text of `TAGS` that has been read.
    """

    def __init__(self, *, passes_calls: bool = True) -> None:
        self._passes_calls = passes_calls
        self.in_reasoning = True
        self.answer_begun = self.in_call = False
        # As if the prompt's end continued earlier reasoning.
        self._tail = self.held = f"{ENDS[0]}{_PROMPT}"
        self._source = Source()
        self._parts: list[Part] = []
        self._reading = self._read()

    def feed(self, text: str) -> list[Part]:
        self._source.add(text)
        next(self._reading, None)
        self._tail = (self._tail + text)[-len(TAGS.closing) :]
        size = partial_length(self._tail, (TAGS.closing,)) if self.in_reasoning else 0
        self.held = self._tail[len(self._tail) - size :]
        return self._take()

    def finish(self, *, cut: bool = False) -> list[Part]:
        self._source.end(cut=cut)
        next(self._reading, None)
        return self._take()

    def _take(self) -> list[Part]:
        parts, self._parts = self._parts, []
        return parts

    def _add_answer(self, text: str) -> None:
        if text:
            self._parts.append(AnswerPart(text))

    def _add_reasoning(self, text: str) -> None:
        if text:
            self._parts.append(ReasoningPart(text))

    def _read(self) -> Reading[None]:
        opening = yield from self._source.look((RECIPIENT, START, CHANNEL))
        self._source.skip(len(opening))
        self._enter_answer(begins=opening == "")
        while True:
            if not opening:
                opening = yield from self._source.find(_MARKERS, self._add_answer)
            if not opening:
                return
            # Any other marker stands alone, and is dropped.
            starts = opening in OPENINGS
            opening = (yield from self._read_message(opening)) if starts else ""

    def _enter_answer(self, *, begins: bool) -> None:
        self.in_reasoning = not begins
        self.answer_begun = self.answer_begun or begins

    def _read_message(self, opening: str) -> Reading[str]:
        """Read what follows an opening; return the next message's opening if it was read."""
        self._enter_answer(begins=False)
        parts = [opening]
        if (yield from self._source.find((MESSAGE, *ENDS), parts.append)) != MESSAGE:
            return ""
        header = "".join(parts)
        if self._passes_calls and parse_recipient(header):
            return (yield from self._read_call(f"{header}{MESSAGE}"))
        is_reasoning = parse_channel(header) == ANALYSIS
        self._enter_answer(begins=not is_reasoning)
        give = self._add_reasoning if is_reasoning else self._add_answer
        found = yield from self._source.find((START, CHANNEL, *ENDS), give)
        self._enter_answer(begins=False)
        return "" if found in ENDS else found

    def _read_call(self, header: str) -> Reading[str]:
        """Read a message to a function and pass it on unchanged."""
        self._enter_answer(begins=True)
        self.in_call = True
        self._add_answer(header)
        if (yield from self._source.peek()) == "{":
            yield from read_value(self._source, self._add_answer)
        found = yield from self._source.find((START, CHANNEL, *ENDS), self._add_answer)
        self.in_call = False
        self._enter_answer(begins=False)
        if found not in ENDS:
            return found
        self._add_answer(found)
        return ""
