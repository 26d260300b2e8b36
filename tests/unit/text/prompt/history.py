"""Histories that clients of this API send, written as strings of letters, one per turn.

Every text in a history contains a word of its own, so that a test can see whether a chat template
showed it.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field

from shared.pb import text_pb2 as pb

# Letter → the arguments of a call: an object, one that max_tokens cut, and other JSON.
_ARGUMENTS = {
    "c": '{{"city": "{}"}}',
    "b": '{{"city": "{}',
    "l": '["{}"]',
    "q": '"{}"',
    "n": "null",
    "i": "",
}
# s: system; u: user; v: user without text; a: assistant; e: assistant without text; h: only its
# thoughts; t: text and a call; k: thoughts, text and a call; d: two calls; w: text and two calls;
# c, b, l, q, n, i: a call, by its arguments; p: a call without an id; r: the result of the oldest
# open call; R: of the newest; z: one without text; o: one without an id; x: of an unknown call.
LETTERS = "suvaehtkdwcblqniprzRox"
_CODES = """
    u uau uauau su suau ssu sssu s ss us usu suasu suas suaus susu uas
    a au aau sa sau uaau uaaau uu uuu uauu suu suuau e eu ueu uehu uhu uh ue sueu ueeu seu v vau uva
    uc ucr ucru ucra ucrau ucrcra ucrcrau sucr sucrau sucras ucrsu ucrs ucrsa scr c cr cra cru
    ut utr utru utrau uk ukrau ud udrr udrrau udRRau udr udru udrrcrau uw uwrrau uwRR udrrdrr
    ucu ucau uca ucaau utu udu uccrr uctrr ucrtrau ucrru ucrxu uxu ux xu x rau
    ub ubr ubru ubrau ul ulrau uq uqrau un unrau ui uirau ubcrrau ucrbrau sbru ubu uba
    ucz uczau uco ucoau udoo udooau upr uprau upo upoau uprpr uxo
    ucre ucreu ucrh ucrhu ucrehu uecr uhcr ucrvu ucrev uehcr
    ucruacrau suacruasu suausacrauacru sucrcrcrcrau usucrsusa ssucrssu
"""


@dataclass
class History:
    """A conversation, and the words that its prompt must contain."""

    messages: list[pb.Message] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    _open: deque[str] = field(default_factory=deque)

    def word(self) -> str:
        """Return a new word."""
        self.words.append(f"word{len(self.words):03}x")
        return self.words[-1]

    def call(self, letter: str) -> pb.ToolCall:
        """Return a new call, which waits for its result."""
        index = sum(len(message.tool_calls) for message in self.messages) + len(self._open)
        name = "" if letter == "p" else f"call_{index:024x}"
        self._open.append(name)
        text = _ARGUMENTS.get(letter, _ARGUMENTS["c"])
        return pb.ToolCall(
            id=name,
            name="get_weather",
            arguments=text.format(self.word()) if "{}" in text else text,
        )

    def add(self, letter: str) -> None:
        """Add the turn of a letter."""
        match letter:
            case "s" | "u":
                self._say("system" if letter == "s" else "user", self.word())
            case "v":
                self._say("user", "")
            case "a":
                self._say("assistant", self.word())
            case "e" | "h":
                self._say("assistant", "", reasoning="hm" if letter == "h" else None)
            case "r" | "z" | "R":
                take = self._open.pop if letter == "R" else self._open.popleft
                name = take() if self._open else "call_none"
                self._say("tool", "" if letter == "z" else self.word(), tool_call_id=name)
            case "o":
                self._open.clear()
                self._say("tool", self.word())
            case "x":
                self._say("tool", self.word(), tool_call_id="call_unknown")
            case _:
                count = 2 if letter in "dw" else 1
                self._say(
                    "assistant",
                    self.word() if letter in "tkw" else "",
                    reasoning="hm" if letter == "k" else None,
                    tool_calls=[self.call(letter) for _ in range(count)],
                )

    def _say(self, role: str, text: str, **fields: object) -> None:
        parts = [pb.Part(text=text)] if text else []
        self.messages.append(pb.Message(role=role, parts=parts, **fields))


def make_history(code: str) -> History:
    """Return the history of a code."""
    history = History()
    for letter in code:
        history.add(letter)
    return history


def function_tool(function: dict[str, object]) -> pb.Tool:
    """Return a tool as a client declares it."""
    return pb.Tool(
        name=str(function["name"]), json=json.dumps({"type": "function", "function": function})
    )


def weather_tool() -> pb.Tool:
    """Return the declaration of the function that histories call."""
    properties = {"city": {"type": "string", "description": "Where."}}
    schema = {"type": "object", "properties": properties, "required": ["city"]}
    return function_tool(
        {"name": "get_weather", "description": "Weather of a city.", "parameters": schema}
    )


def list_histories() -> list[tuple[str, History]]:
    """Return histories by code."""
    return [(code, make_history(code)) for code in _CODES.split()]
