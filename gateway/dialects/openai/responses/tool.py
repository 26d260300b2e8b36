"""Function tools and their choice, in the flat form of the Responses API.

Owns the way from that form to the nested one that chat templates render, and back into answers.
Tools that OpenAI runs itself are refused by name. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import orjson

from gateway import body
from gateway.dialects.conversation import check_tool_count
from gateway.dialects.openai.responses import wire
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb

_HEAD: Final = msgspec.json.Decoder(wire.ItemHead)
_PARAMETERS: Final = msgspec.json.Decoder(dict[str, Any] | None)
_FUNCTION: Final = msgspec.json.Decoder(wire.FunctionTool)


def read_tools(raws: Sequence[msgspec.Raw]) -> list[wire.FunctionTool]:
    """Return the tools of a body.

    Raises:
        ServiceError: one of them is no function, or there are too many.
    """
    check_tool_count(len(raws))
    kinds = [body.decode(_HEAD, raw, f"tools[{i}]").type for i, raw in enumerate(raws)]
    if others := sorted({str(kind)[:100] for kind in kinds if kind != "function"}):
        raise ServiceError(
            "invalid_request",
            f"Unsupported tool types: {', '.join(others)}. Only function tools are supported.",
            "tools",
        )
    return [_read_tool(raw, f"tools[{index}]") for index, raw in enumerate(raws)]


def _read_tool(raw: msgspec.Raw, path: str) -> wire.FunctionTool:
    tool = body.decode(_FUNCTION, raw, path)
    if not tool.name:
        raise ServiceError("invalid_request", f"{path}.name must not be empty", f"{path}.name")
    place = f"{path}.parameters"
    body.check_depth(body.decode(_PARAMETERS, tool.parameters, place), place)
    return tool


def parse_tool(tool: wire.FunctionTool) -> pb.Tool:
    """Return a tool as chat templates know it."""
    function: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        function["description"] = tool.description
    if tool.parameters != b"null":
        function["parameters"] = orjson.Fragment(body.compact(tool.parameters))
    nested = orjson.dumps({"type": "function", "function": function})
    return pb.Tool(name=tool.name, json=nested.decode())


def nest_choice(choice: Any) -> Any:
    """Return a choice in chat's form; both forms are read."""
    if isinstance(choice, dict) and "function" not in choice and "name" in choice:
        return {"type": choice.get("type"), "function": {"name": choice["name"]}}
    return choice


def show_tool(tool: wire.FunctionTool) -> dict[str, Any]:
    """Return a tool as an answer repeats it."""
    shown: dict[str, Any] = {"type": "function", "name": tool.name}
    if tool.description is not None:
        shown["description"] = tool.description
    return shown | {
        "parameters": orjson.Fragment(body.compact(tool.parameters)),
        "strict": tool.strict,
    }


def show_choice(choice: pb.ToolChoice) -> str | Mapping[str, str]:
    """Return a choice as an answer repeats it."""
    if choice.mode == pb.ToolChoice.MODE_NAMED:
        return {"type": "function", "name": choice.name}
    words = {pb.ToolChoice.MODE_NONE: "none", pb.ToolChoice.MODE_REQUIRED: "required"}
    return words.get(choice.mode, "auto")
