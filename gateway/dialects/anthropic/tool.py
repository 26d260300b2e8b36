"""Tools and tool choice in the form of chat templates.

Owns the selection of tools that the prompt contains. Tools that Anthropic runs itself are left out,
as in the reference; so are deferred tools until the client's tool search has found them or a call
in the history has used them. Pure.
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

# Prefix of the types of Anthropic's own tool search, which this server does not run.
_SEARCH: Final = "tool_search_tool"

_ANY: Final = msgspec.json.Decoder(Any)
_TOOL: Final = msgspec.json.Decoder(wire.AnthropicTool)
_MODES: Final = {
    "auto": pb.ToolChoice.MODE_AUTO,
    "none": pb.ToolChoice.MODE_NONE,
    "any": pb.ToolChoice.MODE_REQUIRED,
    # OpenAI's name, which the reference also accepts.
    "required": pb.ToolChoice.MODE_REQUIRED,
    "tool": pb.ToolChoice.MODE_NAMED,
}


def parse_tools(raws: Sequence[msgspec.Raw], used: Container[str]) -> list[pb.Tool]:
    """Return the tools of the prompt.

    Args:
        used: names of tools that are no longer deferred.

    Raises:
        ServiceError: a tool is malformed, or there are too many.
    """
    tools = [json_body.decode(_TOOL, raw, f"tools[{index}]") for index, raw in enumerate(raws)]
    # With their indices in the request, for error paths.
    served = [(i, t) for i, t in enumerate(tools) if t.name and bytes(t.input_schema) != b"null"]
    if not any((tool.type or "").startswith(_SEARCH) for tool in tools):
        loaded = [(i, t) for i, t in served if not t.defer_loading or t.name in used]
        served = loaded or served
    check_tool_count(len(served))
    return [_parse_tool(tool, f"tools[{index}]") for index, tool in served]


def _parse_tool(tool: wire.AnthropicTool, path: str) -> pb.Tool:
    """Return a tool in the form of chat templates."""
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
    """Return the tool name of a choice, or an empty string."""
    name = choice.get("name") if isinstance(choice, dict) else None
    return name if isinstance(name, str) else ""


def parse_tool_choice(choice: Any, tools: Sequence[pb.Tool]) -> pb.ToolChoice:
    """Return the tool choice. An unknown type counts as "auto".

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
        raise _bad_choice("tool_choice names a tool that is not in tools.")
    return pb.ToolChoice(mode=mode, name=name)


def allows_parallel(choice: Any) -> bool | None:
    """Return whether parallel calls are allowed; None if not given."""
    disabled = choice.get("disable_parallel_tool_use") if isinstance(choice, dict) else None
    return not disabled if isinstance(disabled, bool) else None


def _bad_choice(sentence: str) -> ServiceError:
    return ServiceError("invalid_request", sentence, "tool_choice")
