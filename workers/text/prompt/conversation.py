"""Converts messages and tools to the form that a chat template expects.

Owns which tools a template is given, the instruction of a forced tool choice, which reasoning is
kept, and the adaptation to the quirks of templates. Pure; the request is never modified.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shared.pb import text_pb2 as pb
from shared.tool_choice import is_forced
from workers.text.answer.reasoning import Tags

# Texts in the templates of Llama 3, GPT-OSS and Mistral that show the quirks of `TemplateQuirks`.
_FIRST_CALL = re.compile(r"tool_calls(\[0\]| *\| *first)")
_EACH_CALL = re.compile(r"\bin [\w.\[\]'\"]*tool_calls\b")
_NINE_LETTERS = re.compile(r"id *\| *length *(!=|<) *9")
_THINKING = re.compile(r"message(\.thinking|\[.thinking.\])")
_DESCRIPTION = re.compile(r"\+ *\w+(\.function)?\.description\b")


@dataclass(frozen=True)
class TemplateQuirks:
    """Restrictions of a template that clients' messages may violate.

    Attributes:
        single_call: one call per turn; it drops the others, or refuses the turn.
        short_ids: call ids have nine letters or digits.
        thinking: reasoning is the field `thinking`, never together with both text and a call.
        described: every function has a description.
        alternates: user and assistant turns alternate; it refuses two of one role in a row.
        leads: the only system turn is the first; it refuses others.
    """

    single_call: bool = False
    short_ids: bool = False
    thinking: bool = False
    described: bool = False
    alternates: bool = False
    leads: bool = False

    @staticmethod
    def read(template: str) -> TemplateQuirks:
        """Return the quirks of a template."""
        return TemplateQuirks(
            single_call=bool(_FIRST_CALL.search(template) and not _EACH_CALL.search(template)),
            short_ids=bool(_NINE_LETTERS.search(template)),
            thinking=bool(_THINKING.search(template)) and "reasoning_content" not in template,
            described=bool(_DESCRIPTION.search(template)),
            # From the refusals of Mistral, Gemma and Llama 2, and of Qwen 3.5.
            alternates="must alternate" in template,
            leads="must alternate" in template or "must be at the beginning" in template,
        )


def rendered_tools(chat: pb.ChatPrompt, quirks: TemplateQuirks) -> list[dict[str, Any]]:
    """Return the tool objects for a template: all, none, or the forced one."""
    choice = chat.tool_choice
    if choice.mode == pb.ToolChoice.MODE_NONE:
        return []
    named = choice.mode == pb.ToolChoice.MODE_NAMED
    tools = [json.loads(tool.json) for tool in chat.tools if not named or tool.name == choice.name]
    if quirks.described:
        for tool in tools:
            tool["function"].setdefault("description", "")
    return tools


def rendered_messages(
    chat: pb.ChatPrompt, tags: Tags | None, quirks: TemplateQuirks, *, keeps_reasoning: bool
) -> list[dict[str, Any]]:
    """Return the messages for a template.

    Args:
        tags: the tags around the model's reasoning, if it has any.
        keeps_reasoning: keep the reasoning of all earlier turns. Otherwise only that since the
            last user turn is kept, as Qwen3 was trained (the rolling checkpoint of the
            reference), so that the steps of one tool loop see each other's reasoning.
    """
    last_user = max((i for i, m in enumerate(chat.messages) if _is_user_turn(m)), default=-1)
    messages = [
        _to_template(message, tags if index < last_user and not keeps_reasoning else None)
        for index, message in enumerate(chat.messages)
    ]
    _name_results(messages)
    if chat.tools and is_forced(chat.tool_choice):
        _instruct(messages, chat.tool_choice)
    return list(_adapt(messages, quirks))


def _is_user_turn(message: pb.Message) -> bool:
    """Return whether a turn is the user's; some clients send tool results in the user role."""
    text = "".join(part.text for part in message.parts)
    return message.role == "user" and not (
        text.startswith("<tool_response>") and text.endswith("</tool_response>")
    )


def _name_results(messages: Iterable[dict[str, Any]]) -> None:
    """Set the function name of each tool result, which some templates need."""
    names: dict[str, str] = {}
    for message in messages:
        for call in message.get("tool_calls", ()):
            names[call["id"]] = call["function"]["name"]
        name = names.get(message.get("tool_call_id", ""))
        if message["role"] == "tool" and name is not None:
            message.setdefault("name", name)


def _adapt(messages: Iterable[dict[str, Any]], quirks: TemplateQuirks) -> Iterator[dict[str, Any]]:
    """Yield the messages adapted to a template's quirks."""
    if quirks.leads:
        messages = _move_system_turns(messages)
    if quirks.alternates:
        messages = _merge_turns(messages)
    for message in _split_calls(messages) if quirks.single_call else messages:
        if quirks.short_ids:
            _shorten_ids(message)
        if quirks.thinking and "reasoning_content" in message:
            reasoning = [message.pop("reasoning_content")]
            if message.get("tool_calls") and message["content"]:
                reasoning.append(message["content"])
                message["content"] = ""
            message["thinking"] = "\n\n".join(reasoning)
        yield message


def _move_system_turns(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages with one system turn first; later ones become user turns."""
    moved: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] != "system" or not moved:
            moved.append(message)
        elif moved[-1]["role"] == "system":
            moved[-1]["content"] += "\n\n" + message["content"]
        else:
            moved.append(message | {"role": "user"})
    return moved


def _merge_turns(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages with adjacent turns of one role merged, except turns with calls."""
    joined: list[dict[str, Any]] = []
    for message in messages:
        last: dict[str, Any] = joined[-1] if joined else {"role": None}
        calls = "tool_calls" in last or "tool_calls" in message
        if calls or message["role"] not in ("user", "assistant") or last["role"] != message["role"]:
            joined.append(message)
            continue
        for name in ("reasoning_content", "content"):
            if texts := [turn[name] for turn in (last, message) if turn.get(name)]:
                last[name] = "\n\n".join(texts)
    return joined


def _split_calls(messages: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the messages with one call per turn, each followed by its result."""
    rest = deque(messages)
    while rest:
        message = rest.popleft()
        calls = message.pop("tool_calls", ())
        if not calls:
            yield message
        results = []
        while calls and rest and rest[0]["role"] == "tool":
            results.append(rest.popleft())
        for call in calls:
            yield message | {"tool_calls": [call]}
            message = {"role": "assistant", "content": ""}
            yield from (item for item in results if item.get("tool_call_id") == call["id"])
            results = [item for item in results if item.get("tool_call_id") != call["id"]]
        yield from results


def _shorten_ids(message: dict[str, Any]) -> None:
    """Replace the call ids in a message by ids of nine letters or digits."""
    for call in message.get("tool_calls", ()):
        call["id"] = _short_id(call["id"])
    if "tool_call_id" in message:
        message["tool_call_id"] = _short_id(message["tool_call_id"])


def _short_id(text: str) -> str:
    if re.fullmatch("[A-Za-z0-9]{9}", text):
        return text
    return hashlib.sha256(text.encode()).hexdigest()[:9]


def _instruct(messages: list[dict[str, Any]], choice: pb.ToolChoice) -> None:
    """Add that a call is expected to the first system turn, else to the last user turn."""
    if choice.mode == pb.ToolChoice.MODE_NAMED:
        text = f"You must call the '{choice.name}' function."
    else:
        text = "You must call one or more of the available functions."
    system = (message for message in messages if message["role"] == "system")
    users = (message for message in reversed(messages) if message["role"] == "user")
    target = next(system, None) or next(users, None)
    if target is None:
        messages.insert(0, {"role": "system", "content": text})
    else:
        target["content"] = f"{target['content']}\n\n{text}" if target["content"] else text


def _to_template(message: pb.Message, dropped: Tags | None) -> dict[str, Any]:
    """Return a message with text as one string and arguments as mappings.

    Args:
        dropped: the tags of the reasoning to leave out; None keeps it.
    """
    content = "".join(part.text for part in message.parts)
    entry: dict[str, Any] = {"role": message.role, "content": content}
    if message.HasField("name"):
        entry["name"] = message.name
    if message.HasField("tool_call_id"):
        entry["tool_call_id"] = message.tool_call_id
    if message.role == "assistant" and dropped is not None:
        entry["content"] = _strip_reasoning(content, dropped)
    elif message.HasField("reasoning"):
        entry["reasoning_content"] = message.reasoning
    if message.tool_calls:
        entry["tool_calls"] = _to_calls(message.tool_calls)
    return entry


def _strip_reasoning(content: str, tags: Tags) -> str:
    """Return an assistant's text without the reasoning block at its start."""
    closed = content.find(tags.closing)
    head = content[:closed]
    if closed < 0 or (tags.opening in head and not head.lstrip().startswith(tags.opening)):
        return content
    return content[closed + len(tags.closing) :].lstrip("\n")


def _to_calls(calls: Iterable[pb.ToolCall]) -> Sequence[dict[str, Any]]:
    return [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": _to_arguments(call.arguments)},
        }
        for call in calls
    ]


def _to_arguments(text: str) -> Any:
    """Return arguments as a mapping; text that is not a JSON object is kept."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return text
    return value if isinstance(value, dict) else text
