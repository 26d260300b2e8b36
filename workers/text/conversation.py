"""Messages as chat templates expect them.

Owns what a template gets to see of a conversation: which tools, the instruction of a forced tool
choice, and whose thoughts. Pure; the request itself is never changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from shared.pb import text_pb2 as pb
from workers.text.reasoning import Tags

_FORCED = (pb.ToolChoice.MODE_REQUIRED, pb.ToolChoice.MODE_NAMED)


def rendered_tools(chat: pb.ChatPrompt) -> list[dict[str, Any]]:
    """Return the tool objects a template gets: all, none, or the one that is forced."""
    choice = chat.tool_choice
    if choice.mode == pb.ToolChoice.MODE_NONE:
        return []
    named = choice.mode == pb.ToolChoice.MODE_NAMED
    return [json.loads(tool.json) for tool in chat.tools if not named or tool.name == choice.name]


def rendered_messages(
    chat: pb.ChatPrompt, tags: Tags | None, *, keeps_thoughts: bool
) -> list[dict[str, Any]]:
    """Return the messages a template gets.

    Args:
        tags: what the model thinks between, if it thinks.
        keeps_thoughts: leave the thoughts of all earlier turns in. Else only those since the last
            user turn stay, as Qwen3 was trained (the rolling checkpoint of the reference): the
            steps of one tool loop see each other's thoughts.
    """
    last_user = max((i for i, m in enumerate(chat.messages) if m.role == "user"), default=-1)
    messages = [
        _to_template(message, tags if index < last_user and not keeps_thoughts else None)
        for index, message in enumerate(chat.messages)
    ]
    if chat.tools and chat.tool_choice.mode in _FORCED:
        _instruct(messages, chat.tool_choice)
    return messages


def _instruct(messages: list[dict[str, Any]], choice: pb.ToolChoice) -> None:
    """Say that a call is expected: in the first system turn, else the last user turn."""
    if choice.mode == pb.ToolChoice.MODE_NAMED:
        text = f"You must call the '{choice.name}' function."
    else:
        text = "You must call one or more of the available functions."
    system = (message for message in messages if message["role"] == "system")
    users = (message for message in reversed(messages) if message["role"] == "user")
    place = next(system, None) or next(users, None)
    if place is None:
        messages.insert(0, {"role": "system", "content": text})
    else:
        place["content"] = f"{place['content']}\n\n{text}" if place["content"] else text


def _to_template(message: pb.Message, forgotten: Tags | None) -> dict[str, Any]:
    """Return a message with text as one string and arguments as mappings.

    Args:
        forgotten: tags of the thoughts to leave out.
    """
    content = "".join(part.text for part in message.parts)
    entry: dict[str, Any] = {"role": message.role, "content": content}
    if message.HasField("name"):
        entry["name"] = message.name
    if message.HasField("tool_call_id"):
        entry["tool_call_id"] = message.tool_call_id
    if message.role == "assistant" and forgotten is not None:
        entry["content"] = _without_thoughts(content, forgotten)
    elif message.HasField("reasoning"):
        entry["reasoning_content"] = message.reasoning
    if message.tool_calls:
        entry["tool_calls"] = _to_calls(message.tool_calls)
    return entry


def _without_thoughts(content: str, tags: Tags) -> str:
    """Return an assistant's text without the block of thoughts at its head."""
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
    """Return arguments as a mapping; text that is no JSON object stays as it is."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return text
    return value if isinstance(value, dict) else text
