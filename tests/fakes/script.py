"""The output of the fake text worker: pseudo-text as a pure function of request and position.

A request carries its own stage directions in its prompt, as `[name]` or `[name=value]`, so that
the same worker serves a whole test and a worker in another process needs no remote control:

    tokens=N     end of sequence after N tokens (default 8)
    think=N      the first N tokens are a reasoning block
    tool=N       the last N tokens are the arguments of a tool call
    calls=N      nothing but a call of the first tool, until there are N results of calls
    big          each token is some 25 kilobytes of text
    hold=N       text is held back for N tokens at a time, ids are not
    prefill=N    steps before the first token
    accept=S     seconds until Submit answers
    refuse=CODE  Submit fails with this code
    deadly       the worker dies in Submit
    die=N        the worker dies when token N is due, in the first attempt
    poison=N     likewise in every attempt
    hang=N       the step of token N outlives its limit, in every attempt, and the worker dies
    raise=N      the step of token N raises, in the first attempt
    fail=CODE    the request fails with this code after its first token
    stall=N      the step of token N never ends, in the first attempt
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from shared.pb import text_pb2 as pb

_DIRECTION: Final = re.compile(r"\[(\w+)(?:=([^\]]*))?\]")
_ARGUMENTS: Final = ('{"', "round", '": ', "%d", ', "text": "a', ' \\"b\\" ü"', "}")
_WORDS: Final = (" sea", " stone", " 바다", " light", " 🌊", " ö", " seven", "\n", ' "quoted"', ".")


def prompt_text(request: pb.GenerateRequest) -> str:
    """Return the prompt as one string."""
    if request.WhichOneof("prompt") == "chat":
        messages = request.chat.messages
        return "\n".join(part.text for message in messages for part in message.parts)
    if request.HasField("pieces"):
        return " ".join(piece.text or str(piece.id) for piece in request.pieces.pieces)
    if request.HasField("infill"):
        return f"{request.infill.prefix}{request.infill.prompt} _ {request.infill.suffix}"
    return request.text or " ".join(map(str, request.tokens.ids))


@dataclass(frozen=True)
class Token:
    """One position: an id, its text, and the events it gives."""

    id: int
    text: str
    events: tuple[pb.Event, ...]


class Script:
    """The script of one request."""

    def __init__(self, request: pb.GenerateRequest) -> None:
        self.request = request
        text = prompt_text(request)
        self.directions = dict(_DIRECTION.findall(text))
        self.prompt_tokens = max(1, len(text.split()))
        self.prefill_steps = self.number("prefill", 1)
        self.wanted = self.number("tokens", 8)
        self.results = sum(message.role == "tool" for message in request.chat.messages)
        self.calls = self.results < self.number("calls", 0)
        if self.calls:
            self.wanted = self.number("think", 0) + len(_ARGUMENTS)
        limit = request.max_tokens if request.HasField("max_tokens") else 4096
        self.length = min(self.wanted, limit)
        self.identity = f"{text}|{request.sampling.seed}"

    def number(self, name: str, default: int = -1) -> int:
        """Return the value of a direction."""
        return int(self.directions[name]) if name in self.directions else default

    def due(self, name: str, position: int) -> bool:
        """Return whether a direction applies at a position of this attempt."""
        once = name not in ("poison", "hang")
        return self.number(name) == position and (not once or self.request.attempt == 1)

    def tokens(self) -> Iterator[Token]:
        """Yield every token of the undisturbed answer, the last one with Finished."""
        held = ""
        ids: list[int] = []
        hold = self.number("hold", 1)
        kind = pb.BlockStart.KIND_UNSPECIFIED
        for position in range(self.length):
            if position == 1 and (code := self.directions.get("fail")):
                error = pb.Failed()
                error.error.code, error.error.message = code, "Failed as the script says."
                yield Token(0, "", (pb.Event(failed=error),))
                return
            events: list[pb.Event] = []
            if (now := self._kind(position)) != kind:
                if kind:
                    events += [*_delta(held), pb.Event(block_stop=pb.BlockStop())]
                    held = ""
                events.append(pb.Event(block_start=self._start(now)))
                kind = now
            number = zlib.crc32(f"{self.identity}:{position}".encode())
            text = self._text(position, number)
            held += text
            last = position == self.length - 1
            if self.request.HasField("logprobs"):
                info = pb.TokenInfo(id=number % 50_000, text=text.encode(), logprob=-0.5)
                events.append(pb.Event(delta=pb.Delta(text=held, infos=[info])))
                held = ""
            elif last or (position + 1) % hold == 0:
                events += _delta(held)
                held = ""
            ids.append(number % 50_000)
            if self.request.with_ids and (deltas := [e for e in events if e.HasField("delta")]):
                deltas[-1].delta.ids.extend(ids)
                ids.clear()
            if last:
                events += [pb.Event(block_stop=pb.BlockStop()), self._finished()]
            yield Token(number % 50_000, text, tuple(events))

    def _text(self, position: int, number: int) -> str:
        if self.calls and (offset := position - self.number("think", 0)) >= 0:
            return _ARGUMENTS[offset].replace("%d", str(self.results + 1))
        return _WORDS[number % len(_WORDS)] * (5000 if "big" in self.directions else 1)

    def _kind(self, position: int) -> pb.BlockStart.Kind.ValueType:
        if position < self.number("think", 0):
            return pb.BlockStart.KIND_REASONING
        if self.calls or position >= self.length - self.number("tool", 0):
            return pb.BlockStart.KIND_TOOL_CALL
        return pb.BlockStart.KIND_ANSWER

    def _start(self, kind: pb.BlockStart.Kind.ValueType) -> pb.BlockStart:
        if kind != pb.BlockStart.KIND_TOOL_CALL:
            return pb.BlockStart(kind=kind)
        call_id = f"call_{zlib.crc32(self.request.request_id.encode()):08x}"
        name = next((tool.name for tool in self.request.chat.tools), "look")
        return pb.BlockStart(kind=kind, tool_call_id=call_id, tool_name=name)

    def _finished(self) -> pb.Event:
        finished = pb.Finished(
            reason=pb.Finished.REASON_EOS
            if self.length == self.wanted
            else pb.Finished.REASON_MAX_TOKENS,
        )
        finished.usage.prompt_tokens = self.prompt_tokens
        finished.usage.completion_tokens = self.length
        finished.usage.reasoning_tokens = min(self.number("think", 0), self.length)
        finished.timings.predicted_ms = 1.0
        return pb.Event(finished=finished)


def _delta(text: str) -> list[pb.Event]:
    return [pb.Event(delta=pb.Delta(text=text))] if text else []
