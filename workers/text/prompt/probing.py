"""Finds the traits of a chat template by rendering small conversations.

Each text in them is a word of its own: a word that is missing from the prompt was dropped. For one
trait after the other, the first value is taken with which the template refuses and drops nothing,
so a template that shows everything keeps all defaults. Owns the conversations and the values in
the order of preference. Some thirty renderings of a few lines for most templates, at most some
hundred, once when the template is loaded.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from workers.text.prompt.call_turn import pair_results
from workers.text.prompt.traits import TemplateTraits

Message = dict[str, Any]
# Returns the prompt, or None for a refusal.
Render = Callable[[TemplateTraits, Sequence[Message], Sequence[Message]], str | None]

_TOOL = {
    "type": "function",
    "function": {
        "name": "lookup",
        "description": "Look something up.",
        "parameters": {
            "type": "object",
            "properties": {"key": {"type": "string", "description": "What."}},
            "required": ["key"],
        },
    },
}
# Arguments of a call by its letter: an object, JSON that was cut, other JSON.
_ARGUMENTS = {"c": '{{"{}": "{}"}}', "b": '{{"{}": "{}', "l": '["{}", "{}"]', "q": '"{} {}"'}

# A template that takes so much longer than others for a few words is not rendered a hundred times.
_SLOW_S = 1.0

# The traits in the order in which they are found: the conversations they are needed for, and the
# values to try. A conversation has one letter per turn: s system, u user, a assistant, e assistant
# without text, k its reasoning, text and a call, t text and a call, d two calls, c a call, b, l, q
# calls with other arguments, n null, r a result, x a result without a call.
_CALL_FORMS: tuple[Mapping[str, Any], ...] = (
    {},
    {"argument_text": True},
    {"calls": "text"},
    {"calls": "text", "results": "user"},
)
_BASICS: tuple[Mapping[str, Any], ...] = ({}, {"empty_tools": True}, {"parts": True})
_STAGES: tuple[tuple[str, Sequence[Mapping[str, Any]]], ...] = (
    ("uuaau", ({}, {"alternates": True})),
    (
        "au s",
        (
            {},
            {"needs_user": True},
            {"opening": "answer"},
            {"opening": "answer", "needs_user": True},
        ),
    ),
    (
        "ssu sua suasus us",
        ({}, *({"system": place} for place in ("leading", "first", "final", "nowhere"))),
    ),
    ("ueueau ue", ({}, {"empty": "space"}, {"empty": "dropped"})),
    (
        "ucr ucrcrau",
        tuple({**form, **ids} for form in _CALL_FORMS for ids in ({}, {"short_ids": True})),
    ),
    ("udrrau", ({}, {"calls": "single"}, {"calls": "text"}, {"calls": "text", "results": "user"})),
    ("uctrrau", ({}, {"joins_calls": True})),
    (
        "utr utrcrtrau",
        (
            {},
            {"call_text": "past"},
            {"call_text": "apart"},
            {"call_text": "text"},
            {"call_text": "text", "results": "user"},
        ),
    ),
    ("ukr ukrau", ({}, {"thinking": True})),
    (
        "ubrlrqrnr",
        (
            {},
            {"odd_arguments": "member"},
            {"odd_arguments": "text"},
            {"odd_arguments": "text", "results": "user"},
        ),
    ),
    ("uxaucrx x ucaur", ({}, {"stray_results": "user"})),
    ("crau s", ({}, {"opening": "any"}, {"opening": "any", "needs_user": True})),
    ("uc ucucaudru", ({}, {"open_calls": "text"})),
    ("ucrucrsu", ({}, {"joins_results": True})),
)


class Probing:
    """Finds the traits of one template.

    Args:
        render: renders messages and tools by the template with some traits.
        with_tools: whether tools are given.
        clock: seconds of work.
    """

    def __init__(
        self, render: Render, *, with_tools: bool, clock: Callable[[], float] = time.thread_time
    ) -> None:
        self._render = render
        self._clock = clock
        self._tools = [_TOOL] if with_tools else []

    def find(self, hint: TemplateTraits) -> TemplateTraits:
        """Return the traits.

        Args:
            hint: what is known of them.
        """
        traits = self._choose(hint, ["u"], _BASICS)
        # The time of this thread, so that the traits do not depend on what else runs.
        began_s = self._clock()
        shows = self._shows(traits, "u")
        if not shows or self._clock() - began_s > _SLOW_S:
            return hint
        for codes, values in _STAGES:
            traits = self._choose(traits, codes.split(), values)
        return traits

    def _choose(
        self, traits: TemplateTraits, codes: Sequence[str], values: Iterable[Mapping[str, Any]]
    ) -> TemplateTraits:
        """Return the traits with the first values that show all conversations, or else the most."""
        options = [dataclasses.replace(traits, **value) for value in values]
        for option in options:
            if all(self._shows(option, code) for code in codes):
                return option
        return max(options, key=lambda option: sum(self._shows(option, code) for code in codes))

    def _shows(self, traits: TemplateTraits, code: str) -> bool:
        """Return whether the prompt of a conversation contains all of its words."""
        words = _Words()
        messages = list(_make_turns(code, words))
        pair_results(messages)
        text = self._render(traits, messages, self._tools)
        # A mapping printed as Python writes it is not what the model was trained on.
        return (
            text is not None and "{'word" not in text and all(word in text for word in words.made)
        )


class _Words:
    """Makes words that occur nowhere else in a prompt."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def __next__(self) -> str:
        self.made.append(f"word{len(self.made):02}x")
        return self.made[-1]


def _make_turns(code: str, words: _Words) -> Iterator[Message]:
    """Yield the turns of a conversation."""
    waiting: list[str] = []
    count = 0
    for letter in code:
        match letter:
            case "s" | "u" | "a":
                role = {"s": "system", "u": "user", "a": "assistant"}[letter]
                yield {"role": role, "content": next(words)}
            case "e":
                yield {"role": "assistant", "content": ""}
            case "r" | "x":
                name = waiting.pop(0) if letter == "r" else "call_unknown"
                yield {"role": "tool", "content": next(words), "tool_call_id": name}
            case _:
                turn: Message = {
                    "role": "assistant",
                    "content": next(words) if letter in "tk" else "",
                }
                if letter == "k":
                    turn["reasoning_content"] = "thought"
                turn["tool_calls"] = []
                for _ in range(2 if letter == "d" else 1):
                    count += 1
                    waiting.append(f"call_{count:024}")
                    turn["tool_calls"].append(_make_call(waiting[-1], letter, words))
                yield turn


def _make_call(name: str, letter: str, words: _Words) -> Message:
    if letter == "n":
        text = "null"
    else:
        text = _ARGUMENTS.get(letter, _ARGUMENTS["c"]).format(next(words), next(words))
    return {"id": name, "type": "function", "function": {"name": "lookup", "arguments": text}}
