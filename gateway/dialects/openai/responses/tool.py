"""Function tools and tool choice in the flat form of the Responses API.

Owns the conversion to the nested form of chat templates and back. Functions in a namespace, which
agents declare for MCP servers, get it as a prefix of their name. Tools that OpenAI runs itself are
refused by name, or left out. Pure.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec
import orjson

from gateway.dialects import json_body
from gateway.dialects.base import Policy
from gateway.dialects.conversation import check_tool_count
from gateway.dialects.openai.responses import wire
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb

# Types of tools that the client runs; OpenAI's servers run those of all others.
_OWN_KINDS: Final = frozenset({"function", "custom"})
_HINT: Final = " A server that runs with --builtin-tools drop leaves out those that OpenAI runs."

_HEAD: Final = msgspec.json.Decoder(wire.ItemHead)
_PARAMETERS: Final = msgspec.json.Decoder(dict[str, Any] | None)
_FUNCTION: Final = msgspec.json.Decoder(wire.FunctionTool)
_NAMESPACE: Final = msgspec.json.Decoder(wire.NamespaceTool)


@dataclass(frozen=True)
class ResponseTool:
    """A function the model may call, and the namespace it was declared in."""

    function: wire.FunctionTool
    namespace: wire.NamespaceTool | None = None

    @property
    def label(self) -> str:
        """The name in the prompt."""
        return make_label(self.namespace.name if self.namespace else None, self.function.name)


def make_label(namespace: str | None, name: str) -> str:
    """Return the name of a function in the prompt: templates have no namespaces."""
    return f"{namespace}__{name}" if namespace else name


class _Found(NamedTuple):
    """One tool of a body, not decoded yet."""

    kind: str
    raw: msgspec.Raw
    path: str
    namespace: wire.NamespaceTool | None


def read_tools(raws: Sequence[msgspec.Raw], policy: Policy) -> list[ResponseTool]:
    """Return the functions of a body, including those in namespaces.

    Raises:
        ServiceError: a tool is not a function, or there are too many.
    """
    found = list(_find_tools(raws))
    if policy.drops_builtin_tools:
        found = [tool for tool in found if tool.kind in _OWN_KINDS]
    check_tool_count(len(found))
    if others := sorted({tool.kind[:100] for tool in found if tool.kind != "function"}):
        raise ServiceError(
            "invalid_request",
            f"Unsupported tool types: {', '.join(others)}. Only function tools are supported."
            + _HINT * any(kind not in _OWN_KINDS for kind in others),
            "tools",
        )
    return [ResponseTool(_read_function(tool.raw, tool.path), tool.namespace) for tool in found]


def _find_tools(raws: Sequence[msgspec.Raw]) -> Iterator[_Found]:
    for index, raw in enumerate(raws):
        path = f"tools[{index}]"
        if (kind := _read_kind(raw, path)) != "namespace":
            yield _Found(kind, raw, path, None)
            continue
        space = json_body.decode(_NAMESPACE, raw, path)
        _require_name(space.name, path)
        for inner_index, inner in enumerate(space.tools):
            inner_path = f"{path}.tools[{inner_index}]"
            yield _Found(_read_kind(inner, inner_path), inner, inner_path, space)


def _read_kind(raw: msgspec.Raw, path: str) -> str:
    return str(json_body.decode(_HEAD, raw, path).type)


def _read_function(raw: msgspec.Raw, path: str) -> wire.FunctionTool:
    tool = json_body.decode(_FUNCTION, raw, path)
    _require_name(tool.name, path)
    where = f"{path}.parameters"
    json_body.check_depth(json_body.decode(_PARAMETERS, tool.parameters, where), where)
    return tool


def _require_name(name: str, path: str) -> None:
    if not name:
        raise ServiceError("invalid_request", f"{path}.name must not be empty", f"{path}.name")


def parse_tool(tool: ResponseTool) -> pb.Tool:
    """Return a tool in the form of chat templates."""
    given = tool.function
    function: dict[str, Any] = {"name": tool.label}
    if given.description is not None:
        function["description"] = given.description
    if bytes(given.parameters) != b"null":
        function["parameters"] = orjson.Fragment(json_body.compact(given.parameters))
    nested = orjson.dumps({"type": "function", "function": function})
    return pb.Tool(name=tool.label, json=nested.decode())


def name_call(label: str, tools: Sequence[ResponseTool]) -> dict[str, str]:
    """Return the name and namespace of a called function."""
    tool = next((tool for tool in tools if tool.label == label), None)
    if tool is None or tool.namespace is None:
        return {"name": label}
    return {"name": tool.function.name, "namespace": tool.namespace.name}


def nest_choice(choice: Any) -> Any:
    """Return a choice in chat's form; both forms are accepted."""
    if isinstance(choice, dict) and "function" not in choice and "name" in choice:
        return {"type": choice.get("type"), "function": {"name": choice["name"]}}
    return choice


def show_tools(tools: Sequence[ResponseTool]) -> list[dict[str, Any]]:
    """Return tools in the form of a response."""
    shown: list[dict[str, Any]] = []
    for space, group in itertools.groupby(tools, lambda tool: tool.namespace):
        functions = [_show_function(tool.function) for tool in group]
        if space is None:
            shown += functions
        else:
            fields = {"name": space.name, "description": space.description or ""}
            shown.append({"type": "namespace", **fields, "tools": functions})
    return shown


def _show_function(tool: wire.FunctionTool) -> dict[str, Any]:
    shown: dict[str, Any] = {"type": "function", "name": tool.name}
    if tool.description is not None:
        shown["description"] = tool.description
    return shown | {
        "parameters": orjson.Fragment(json_body.compact(tool.parameters)),
        "strict": tool.strict,
    }


def show_choice(choice: pb.ToolChoice) -> str | Mapping[str, str]:
    """Return a choice in the form of a response."""
    if choice.mode == pb.ToolChoice.MODE_NAMED:
        return {"type": "function", "name": choice.name}
    words = {pb.ToolChoice.MODE_NONE: "none", pb.ToolChoice.MODE_REQUIRED: "required"}
    return words.get(choice.mode, "auto")
