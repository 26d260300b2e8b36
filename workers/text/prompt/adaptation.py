"""Adapts messages to the restrictions of a chat template, so that it shows all of them.

Owns what is moved, merged, split or written as text; traits.py names when. Each step looks only at
neighbouring turns, so that a longer history begins as the shorter one. Pure: the messages are
copied.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from workers.text.prompt.call_turn import (
    fold_calls,
    place_text,
    show_arguments,
    split_calls,
)
from workers.text.prompt.traits import TemplateTraits

Message = dict[str, Any]
WriteCall = Callable[[str, str], str]


def adapt(
    messages: Sequence[Message], traits: TemplateTraits, write: WriteCall, *, continued: bool
) -> list[Message]:
    """Return the messages that a template with these traits shows.

    Args:
        write: writes a call as text.
        continued: the last turn is continued, so it stays the last.
    """
    turns = [dict(message) for message in messages]
    if traits.joins_calls:
        turns = _join(turns, _adds_call)
    turns = fold_calls(turns, traits, write)
    turns = list(place_text(turns, traits))
    if traits.calls == "single":
        turns = list(split_calls(turns))
    turns = [show_arguments(turn, traits) for turn in turns]
    turns = list(_move_system_turns(turns, traits))
    if traits.joins_results:
        turns = _join(turns, _adds_to_result)
    turns = list(_treat_empty_turns(turns, traits, continued=continued))
    if traits.alternates:
        turns = _join(turns, _repeats_role)
    _open(turns, traits)
    return [_fit(turn, traits) for turn in turns]


def _move_system_turns(turns: Sequence[Message], traits: TemplateTraits) -> Iterator[Message]:
    """Yield the turns with every system turn where the template shows it."""
    place = traits.system
    count = next((i for i, turn in enumerate(turns) if turn["role"] != "system"), len(turns))
    if place == "final" and not _ends_with_user(turns[count:], traits):
        place = "nowhere"
    leading = turns[:count]
    if place in ("first", "final") and leading:
        leading = [_joined(leading)]
    for turn in leading:
        yield turn | {"role": "user"} if place == "nowhere" else turn
    for turn in turns[count:]:
        moved = turn["role"] == "system" and place != "anywhere"
        yield turn | {"role": "user"} if moved else turn


def _ends_with_user(turns: Sequence[Message], traits: TemplateTraits) -> bool:
    """Return whether the last turn will be the user's."""
    said = [turn["role"] for turn in turns]
    while said and said[-1] in ("user", "system"):
        said.pop()
    joined = traits.joins_results and bool(said) and said[-1] == "tool"
    return len(said) < len(turns) and not joined


def _treat_empty_turns(
    turns: Sequence[Message], traits: TemplateTraits, *, continued: bool
) -> Iterator[Message]:
    """Yield the turns, with assistant turns that say nothing as the template accepts them."""
    last = len(turns) - 1 if continued else len(turns)
    for index, turn in enumerate(turns):
        said = turn["content"].strip() or turn.get("tool_calls") or turn["role"] != "assistant"
        if said or traits.empty == "kept" or index == last:
            yield turn
        elif traits.empty == "space":
            yield turn | {"content": " "}


def _join(turns: Iterable[Message], belongs: Callable[[Message, Message], bool]) -> list[Message]:
    """Return the turns with those joined that belong to the first of their group."""
    groups: list[list[Message]] = []
    for turn in turns:
        if groups and belongs(groups[-1][0], turn):
            groups[-1].append(turn)
        else:
            groups.append([turn])
    return [group[0] if len(group) == 1 else _joined(group) for group in groups]


def _adds_call(first: Message, turn: Message) -> bool:
    return turn["role"] == "assistant" and "tool_calls" in first


def _adds_to_result(first: Message, turn: Message) -> bool:
    return (first["role"], turn["role"]) == ("tool", "user")


def _repeats_role(first: Message, turn: Message) -> bool:
    plain = "tool_calls" not in first and "tool_calls" not in turn
    return plain and turn["role"] in ("user", "assistant") and first["role"] == turn["role"]


def _joined(turns: Sequence[Message]) -> Message:
    """Return turns as one, in the role of the first."""
    joined = dict(turns[0])
    for name in ("reasoning_content", "content"):
        if texts := [turn[name] for turn in turns if turn.get(name)]:
            joined[name] = "\n\n".join(texts)
    if calls := [call for turn in turns for call in turn.get("tool_calls", ())]:
        joined["tool_calls"] = calls
    return joined


def _open(turns: list[Message], traits: TemplateTraits) -> None:
    """Insert a user turn without text where the template needs one before the others."""
    start = next((i for i, turn in enumerate(turns) if turn["role"] != "system"), len(turns))
    first = turns[start] if start < len(turns) else {"role": "user"}
    answer = first["role"] == "assistant" and "tool_calls" not in first
    late = traits.opening != "none" and (answer or traits.opening == "any")
    absent = traits.needs_user and all(turn["role"] != "user" for turn in turns)
    if absent or (late and first["role"] != "user"):
        turns.insert(start, {"role": "user", "content": ""})


def _fit(turn: Message, traits: TemplateTraits) -> Message:
    """Return a turn with the fields that the template reads."""
    if traits.short_ids:
        _shorten_ids(turn)
    if traits.thinking and "reasoning_content" in turn:
        reasoning = [turn.pop("reasoning_content")]
        if turn.get("tool_calls") and turn["content"]:
            reasoning.append(turn["content"])
            turn["content"] = ""
        turn["thinking"] = "\n\n".join(reasoning)
    if traits.parts:
        turn["content"] = [{"type": "text", "text": turn["content"]}]
    return turn


def _shorten_ids(turn: Message) -> None:
    """Replace the call ids in a turn by ids of nine letters or digits."""
    for call in turn.get("tool_calls", ()):
        call["id"] = _short_id(call["id"])
    if "tool_call_id" in turn:
        turn["tool_call_id"] = _short_id(turn["tool_call_id"])


def _short_id(text: str) -> str:
    if re.fullmatch("[A-Za-z0-9]{9}", text):
        return text
    return hashlib.sha256(text.encode()).hexdigest()[:9]
