"""Turns with tool calls and turns with results, as a chat template shows them.

Owns pairing, calls as text, one call per turn, the text beside calls, and the form of arguments.
Pure: turns are copied before they are changed.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from workers.text.prompt.traits import TemplateTraits

Message = dict[str, Any]


def pair_results(turns: Iterable[Message]) -> None:
    """Set missing ids of calls and results, and the function name of each result.

    A result without an id belongs to the oldest call that has none yet.
    """
    names: dict[str, str] = {}
    # Calls without a result, in order.
    waiting: dict[str, None] = {}
    for turn in turns:
        for call in turn.get("tool_calls", ()):
            call["id"] = call["id"] or f"call_{len(names)}"
            names[call["id"]] = call["function"]["name"]
            waiting[call["id"]] = None
        if turn["role"] != "tool":
            continue
        if not turn.get("tool_call_id"):
            turn["tool_call_id"] = next(iter(waiting), "call_0")
        waiting.pop(turn["tool_call_id"], None)
        if (name := names.get(turn["tool_call_id"])) is not None:
            turn.setdefault("name", name)


def fold_calls(
    turns: Sequence[Message], traits: TemplateTraits, write: Callable[[str, str], str]
) -> list[Message]:
    """Return the turns with the calls that the template does not show written as text.

    Args:
        write: writes a call, given its name and arguments.
    """
    answered = {turn["tool_call_id"] for turn in turns if turn["role"] == "tool"}
    folded: list[Message] = []
    # Calls since the last turn without calls → the role of their results.
    roles: dict[str, str] = {}
    # Results in the user's role, which follow those that belong to calls.
    late: list[Message] = []
    for turn in turns:
        if turn["role"] == "tool":
            role = roles.get(turn["tool_call_id"], traits.stray_results)
            (late if role == "user" else folded).append(_place(turn, role))
            continue
        folded += late
        late = []
        calls = turn.get("tool_calls", ())
        whole = traits.calls == "text" or (traits.call_text == "text" and turn["content"])
        texts: list[Message] = []
        rest: list[Message] = []
        roles = roles if calls else {}
        for call in calls:
            is_text = whole or _is_text(call, traits, answered)
            (texts if is_text else rest).append(call)
            roles[call["id"]] = traits.results if is_text else "tool"
        folded.append(_with_texts(turn, texts, rest, write) if texts else turn)
    return folded + late


def _is_text(call: Message, traits: TemplateTraits, answered: set[str]) -> bool:
    """Return whether a single call must be text."""
    if traits.open_calls == "text" and call["id"] not in answered:
        return True
    arguments = call["function"]["arguments"]
    return traits.odd_arguments == "text" and isinstance(read_arguments(arguments), str)


def _with_texts(
    turn: Message,
    texts: Sequence[Message],
    rest: Sequence[Message],
    write: Callable[[str, str], str],
) -> Message:
    """Return a turn with some of its calls as text and the rest as calls."""
    functions = [call["function"] for call in texts]
    written = [write(function["name"], function["arguments"]) for function in functions]
    changed = turn | {"content": "\n".join(filter(None, [turn["content"], *written]))}
    if rest:
        return changed | {"tool_calls": rest}
    del changed["tool_calls"]
    return changed


def _place(turn: Message, role: str) -> Message:
    """Return a result in a role; as the user's it is marked as what it is."""
    if role == "tool":
        return turn
    return {"role": "user", "content": f"<tool_response>\n{turn['content']}\n</tool_response>"}


def place_text(turns: Sequence[Message], traits: TemplateTraits) -> Iterator[Message]:
    """Yield the turns, with text beside calls in a turn of its own if it is not shown there."""
    answers = [
        i
        for i, turn in enumerate(turns)
        if turn["role"] == "assistant" and not turn.get("tool_calls")
    ]
    limits = {"past": max(answers, default=0), "apart": len(turns)}
    last = limits.get(traits.call_text, 0)
    for index, turn in enumerate(turns):
        if index < last and turn.get("tool_calls") and turn["content"]:
            yield {name: turn[name] for name in turn if name != "tool_calls"}
            yield {"role": "assistant", "content": "", "tool_calls": turn["tool_calls"]}
        else:
            yield turn


def split_calls(turns: Iterable[Message]) -> Iterator[Message]:
    """Yield the turns with one call per turn, each followed by its result."""
    rest = deque(turns)
    while rest:
        turn = rest.popleft()
        calls = turn.pop("tool_calls", ())
        if not calls:
            yield turn
        # By call id, in their order.
        results: dict[str, list[Message]] = {}
        while calls and rest and rest[0]["role"] == "tool":
            results.setdefault(rest[0]["tool_call_id"], []).append(rest.popleft())
        for call in calls:
            yield turn | {"tool_calls": [call]}
            turn = {"role": "assistant", "content": ""}
            yield from results.pop(call["id"], ())
        for others in results.values():
            yield from others


def show_arguments(turn: Message, traits: TemplateTraits) -> Message:
    """Return a turn with the arguments of its calls in the form that the template shows."""
    if "tool_calls" not in turn:
        return turn
    return turn | {"tool_calls": [_shown_call(call, traits) for call in turn["tool_calls"]]}


def _shown_call(call: Message, traits: TemplateTraits) -> Message:
    text = call["function"]["arguments"]
    shown: Any = read_arguments(text)
    if isinstance(shown, str) and traits.odd_arguments == "member":
        shown = {} if text.strip() == "null" else {"arguments": text}
        text = json.dumps(shown, ensure_ascii=False)
    if traits.argument_text:
        shown = text or "{}"
    return call | {"function": call["function"] | {"arguments": shown}}


def read_arguments(text: str) -> dict[str, Any] | str:
    """Return arguments as a mapping; text that is not a JSON object is kept."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return text
    return value if isinstance(value, dict) else text
