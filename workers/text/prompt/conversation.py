"""Converts messages and tools to the form that a chat template expects.

Owns which tools a template is given, the instruction of a forced tool choice, and which reasoning
is kept; adaptation.py fits the messages to one template. Pure; the request is never modified.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from shared.pb import text_pb2 as pb
from shared.tool_choice import is_forced
from workers.text.answer.reasoning import Tags
from workers.text.prompt.call_turn import pair_results


def rendered_tools(chat: pb.ChatPrompt) -> list[dict[str, Any]]:
    """Return the tool objects for a template: all, none, or the forced one."""
    choice = chat.tool_choice
    if choice.mode == pb.ToolChoice.MODE_NONE:
        return []
    named = choice.mode == pb.ToolChoice.MODE_NAMED
    return [json.loads(tool.json) for tool in chat.tools if not named or tool.name == choice.name]


def rendered_messages(
    chat: pb.ChatPrompt, tags: Tags | None, *, keeps_reasoning: bool
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
    pair_results(messages)
    if chat.tools and is_forced(chat.tool_choice):
        _instruct(messages, chat.tool_choice)
    return messages


def _is_user_turn(message: pb.Message) -> bool:
    """Return whether a turn is the user's; some clients send tool results in the user role."""
    text = "".join(part.text for part in message.parts)
    return message.role == "user" and not (
        text.startswith("<tool_response>") and text.endswith("</tool_response>")
    )


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
    """Return a message with text as one string.

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
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in calls
    ]
