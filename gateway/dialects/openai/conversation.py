"""Messages, tools and template variables of an OpenAI chat body, as a canonical prompt.

Owns the allowed content of a conversation. Workers render chat templates. Media parts become empty
canonical parts with a reference to what must be fetched; nothing is fetched here. Pure.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gateway.dialects import json_body
from gateway.dialects.base import MediaRef, Policy, Stamp
from gateway.dialects.conversation import check_piece_count, check_tool_count, require_input
from gateway.dialects.openai import wire
from shared.errors import ServiceError
from shared.pb import common_pb2 as common
from shared.pb import text_pb2 as pb

_ANY: Final = msgspec.json.Decoder(Any)
_TOOL: Final = msgspec.json.Decoder(wire.ChatTool)
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_MODES: Final = {
    "auto": pb.ToolChoice.MODE_AUTO,
    "none": pb.ToolChoice.MODE_NONE,
    "required": pb.ToolChoice.MODE_REQUIRED,
}


def parse_conversation(fields: wire.ChatBody, stamp: Stamp, media: list[MediaRef]) -> pb.ChatPrompt:
    """Return the prompt; adds references to `media`.

    Raises:
        ServiceError: naming the field.
    """
    check_piece_count(sum(map(_count_pieces, fields.messages)), "messages")
    messages = [parse_message(m, f"messages[{i}]", media) for i, m in enumerate(fields.messages)]
    require_input(messages, "messages")
    tools = parse_tools(fields.tools or [])
    prompt = pb.ChatPrompt(
        messages=messages,
        tools=tools,
        tool_choice=parse_tool_choice(fields.tool_choice, tools),
        template_kwargs_json=parse_template_kwargs(fields),
        template_time_unix_s=stamp.unix_s,
        add_generation_prompt=not _continues(fields, stamp.policy),
    )
    if fields.parallel_tool_calls is not None:
        prompt.parallel_tool_calls = fields.parallel_tool_calls
    return prompt


def _count_pieces(message: wire.ChatMessage) -> int:
    parts = len(message.content) if isinstance(message.content, list) else 0
    return 1 + parts + len(message.tool_calls or ())


def parse_message(message: wire.ChatMessage, path: str, media: list[MediaRef]) -> pb.Message:
    """Return one turn. `developer` becomes `system`."""
    if message.function_call is not None:
        raise ServiceError(
            "invalid_request", f"{path}.function_call is not supported: use tool_calls", path
        )
    calls = message.tool_calls or []
    return pb.Message(
        role="system" if message.role == "developer" else message.role,
        parts=_parse_content(message.content, f"{path}.content", media),
        name=message.name,
        tool_calls=[_parse_call(c, f"{path}.tool_calls[{i}]") for i, c in enumerate(calls)],
        tool_call_id=message.tool_call_id,
        reasoning=message.reasoning_content or message.reasoning,
    )


def _parse_content(
    content: str | list[wire.Part] | None, path: str, media: list[MediaRef]
) -> list[pb.Part]:
    if not isinstance(content, list):
        return [pb.Part(text=content)] if content else []
    return [parse_part(part, f"{path}[{i}]", media) for i, part in enumerate(content)]


def parse_part(part: wire.Part, path: str, media: list[MediaRef]) -> pb.Part:
    """Return a part of a message; a media part is empty and has a reference in `media`."""
    match part:
        case wire.TextPart():
            return pb.Part(text=part.text)
        case wire.RefusalPart():
            return pb.Part(text=part.refusal)
        case wire.ImagePart(image_url=wire.ImageUrl() as image):
            made = common.Media(kind=common.Media.KIND_IMAGE, detail=image.detail)
            url = image.url
        case wire.ImagePart(image_url=url):
            made = common.Media(kind=common.Media.KIND_IMAGE)
        case wire.VideoPart(video_url=wire.VideoUrl() as video):
            made = common.Media(kind=common.Media.KIND_VIDEO, fps=video.fps)
            url = video.url
        case wire.VideoPart(video_url=url):
            made = common.Media(kind=common.Media.KIND_VIDEO)
        case wire.AudioPart(input_audio=audio):
            made = common.Media(kind=common.Media.KIND_AUDIO)
            url = audio.data
    return refer(made, url, path, media)


def refer(made: common.Media, url: str, path: str, media: list[MediaRef]) -> pb.Part:
    """Return an empty media part, and add its reference to `media`."""
    reference = MediaRef(made.kind, url, path, pb.Part(media=made))
    media.append(reference)
    return reference.part


def _parse_call(call: wire.ToolCall, path: str) -> pb.ToolCall:
    text = parse_arguments(call.function.arguments, f"{path}.function.arguments")
    return pb.ToolCall(id=call.id or "", name=call.function.name, arguments=text)


def parse_arguments(raw: msgspec.Raw, path: str) -> str:
    """Return the JSON text of a call's arguments, sent as a string or as an object."""
    arguments = json_body.decode(_ANY, raw, path)
    if isinstance(arguments, str):
        return arguments
    json_body.check_depth(arguments, path)
    return bytes(raw).decode()


def parse_tools(raws: list[msgspec.Raw]) -> list[pb.Tool]:
    """Return the tools, each with its JSON text."""
    check_tool_count(len(raws))
    return [_parse_tool(raw, f"tools[{index}]") for index, raw in enumerate(raws)]


def _parse_tool(raw: msgspec.Raw, path: str) -> pb.Tool:
    tool = json_body.decode(_TOOL, raw, path)
    if not tool.function.name:
        raise ServiceError("invalid_request", f"{path}.function.name must not be empty", path)
    json_body.check_depth(json_body.decode(_ANY, raw, path), path)
    return pb.Tool(name=tool.function.name, json=bytes(raw).decode())


def parse_tool_choice(choice: Any, tools: list[pb.Tool]) -> pb.ToolChoice:
    """Return the tool choice."""
    if choice is None:
        return pb.ToolChoice(mode=pb.ToolChoice.MODE_AUTO)
    if isinstance(choice, dict):
        return pb.ToolChoice(mode=pb.ToolChoice.MODE_NAMED, name=_named_tool(choice, tools))
    if not isinstance(choice, str) or choice not in _MODES:
        shown = str(choice)[:100]
        raise _bad_choice(
            f"Invalid tool_choice value: '{shown}'. "
            "Must be 'auto', 'none', 'required', or a function object."
        )
    if choice == "required" and not tools:
        raise _bad_choice("tool_choice 'required' needs at least one tool.")
    return pb.ToolChoice(mode=_MODES[choice])


def _named_tool(choice: dict[str, Any], tools: list[pb.Tool]) -> str:
    function = choice.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    if choice.get("type") != "function" or not isinstance(name, str) or not name:
        raise _bad_choice("tool_choice must be of type 'function' and name a function.")
    if all(tool.name != name for tool in tools):
        raise _bad_choice("tool_choice names a function that is not in tools.")
    return name


def parse_template_kwargs(fields: wire.TurnFields) -> str:
    """Return the template variables as JSON text, empty for none. The first form given counts."""
    extra = fields.extra_body or {}
    kwargs = fields.chat_template_kwargs
    path = "chat_template_kwargs"
    if kwargs is None and bytes(extra.get(path, b"null")) != b"null":
        path = f"extra_body.{path}"
        kwargs = json_body.decode(_OBJECT, extra["chat_template_kwargs"], path)
    if kwargs is None and "preserve_thinking" in extra:
        kwargs = {"preserve_thinking": extra["preserve_thinking"]}
    # The OpenAI SDK moves the content of extra_body to the top level.
    if kwargs is None and fields.preserve_thinking is not None:
        kwargs = {"preserve_thinking": msgspec.Raw(msgspec.json.encode(fields.preserve_thinking))}
    for name, raw in (kwargs or {}).items():
        json_body.check_depth(json_body.decode(_ANY, raw, path), f"{path}.{name}")
    return msgspec.json.encode(kwargs).decode() if kwargs else ""


def _continues(fields: wire.ChatBody, policy: Policy) -> bool:
    """Return whether the prompt ends with the last message, which an answer would continue."""
    last = fields.messages[-1]
    asked = fields.continue_final_message or fields.add_generation_prompt is False
    if not asked:
        open_ended = fields.continue_final_message is None and fields.add_generation_prompt is None
        begun = last.role == "assistant" and bool(last.content) and not last.tool_calls
        return policy.prefill_assistant and open_ended and begun
    if fields.continue_final_message and last.role != "assistant":
        raise ServiceError(
            "invalid_request",
            "the last message must be of the assistant to be continued",
            "messages",
        )
    return True


def _bad_choice(sentence: str) -> ServiceError:
    return ServiceError("invalid_request", sentence, "tool_choice")
