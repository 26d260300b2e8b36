"""Tools and the choice among them, as chat templates know them.

Owns which tools the model is told of. Those that Anthropic runs itself are left out, as the
reference wants it; so are those whose loading is deferred until the client's own search has found
them, or a call in the history has used them. Pure.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, Final

import msgspec

from gateway.dialects import json_body
from gateway.dialects.anthropic import wire
from gateway.dialects.conversation import check_tool_count
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb

# Types of the tools with which Anthropic searches on its own side; nothing searches here.
_SEARCH: Final = "tool_search_tool"

_ANY: Final = msgspec.json.Decoder(Any)
_TOOL: Final = msgspec.json.Decoder(wire.AnthropicTool)
_MODES: Final = {
    "auto": pb.ToolChoice.MODE_AUTO,
    "none": pb.ToolChoice.MODE_NONE,
    "any": pb.ToolChoice.MODE_REQUIRED,
    # OpenAI's word for it, which the reference's server takes as well.
    "required": pb.ToolChoice.MODE_REQUIRED,
    "tool": pb.ToolChoice.MODE_NAMED,
}


def parse_tools(raws: Sequence[msgspec.Raw], used: Container[str]) -> list[pb.Tool]:
    """Return the tools the model is told of.

    Args:
        used: names that loading is not deferred for any more.

    Raises:
        ServiceError: one is malformed, or there are too many.
    """
    tools = [json_body.decode(_TOOL, raw, f"tools[{index}]") for index, raw in enumerate(raws)]
    # In the order and with the places of the request.
    served = [(i, t) for i, t in enumerate(tools) if t.name and bytes(t.input_schema) != b"null"]
    if not any((tool.type or "").startswith(_SEARCH) for tool in tools):
        loaded = [(i, t) for i, t in served if not t.defer_loading or t.name in used]
        served = loaded or served
    check_tool_count(len(served))
    return [_parse_tool(tool, f"tools[{index}]") for index, tool in served]


def _parse_tool(tool: wire.AnthropicTool, path: str) -> pb.Tool:
    """Return a tool in the form that chat templates print."""
    path = f"{path}.input_schema"
    schema = json_body.decode(_ANY, tool.input_schema, path)
    if not isinstance(schema, dict):
        raise ServiceError("invalid_request", f"{path} must be an object", path)
    json_body.check_depth(schema, path)
    function: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        function["description"] = tool.description
    function["parameters"] = tool.input_schema
    text = msgspec.json.encode({"type": "function", "function": function}).decode()
    return pb.Tool(name=tool.name or "", json=text)


def named_tool(choice: Any) -> str:
    """Return the name in a choice of one tool, else an empty one."""
    name = choice.get("name") if isinstance(choice, dict) else None
    return name if isinstance(name, str) else ""


def parse_tool_choice(choice: Any, tools: Sequence[pb.Tool]) -> pb.ToolChoice:
    """Return whether and which tool must be called. A choice of an unknown type is none.

    Raises:
        ServiceError: there is no such tool.
    """
    kind = choice.get("type") if isinstance(choice, dict) else choice
    mode = _MODES.get(kind) if isinstance(kind, str) else None
    name = named_tool(choice)
    if mode == pb.ToolChoice.MODE_REQUIRED and not tools:
        raise _bad_choice("tool_choice 'any' needs at least one tool.")
    if mode != pb.ToolChoice.MODE_NAMED:
        return pb.ToolChoice(mode=mode or pb.ToolChoice.MODE_AUTO)
    if all(tool.name != name for tool in tools):
        raise _bad_choice("tool_choice names a tool that is not among the tools.")
    return pb.ToolChoice(mode=mode, name=name)


def allows_parallel(choice: Any) -> bool | None:
    """Return whether several calls may be made at once; None when nothing is said of it."""
    disabled = choice.get("disable_parallel_tool_use") if isinstance(choice, dict) else None
    return not disabled if isinstance(disabled, bool) else None


def _bad_choice(sentence: str) -> ServiceError:
    return ServiceError("invalid_request", sentence, "tool_choice")
