"""The grammar of an answer that must be a tool call.

Written in llguidance's dialect of Lark, with a JSON schema for the call object. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from shared.pb import text_pb2 as pb
from workers.text.answer.exactness import JSON_STYLE, make_exact
from workers.text.answer.grammar import compiles
from workers.text.toolcalls.format import Tools, Wrapper

# Without a limit, a model that repeats calls would go on to its token limit.
_MAX_CALLS = 8


def force(
    wrapper: Wrapper,
    tools: Tools,
    named: str | None,
    control_names: Mapping[str, int],
    *,
    lone: bool = False,
) -> pb.Grammar:
    """Return the grammar of one call of `named`, or of one to eight calls of any function.

    Args:
        lone: allow only one call even if none is named.
        control_names: ids of control tokens by text; delimiters that are control tokens are
            written as such in the grammar.

    Raises:
        InexactError: a function's parameters can't be enforced exactly.
    """
    names = [named] if named is not None else list(tools)
    schema: dict[str, Any] = {"anyOf": [_object(name, tools, wrapper) for name in names]}
    schema["x-guidance"] = JSON_STYLE
    opening = _spell(wrapper.opening, control_names)
    closing = _spell(wrapper.closing, control_names)
    more = "" if lone or named is not None else f"{{0,{_MAX_CALLS - 1}}}"
    if wrapper.is_list:
        rest = f' ("," / ?/ call){more}' if more else ""
        start = f'{opening} "[" call{rest} "]" {closing}'
    else:
        one = f"{opening} call {closing}".strip()
        start = f"{one} (/\\n?/ {one}){more}" if more else one
    return pb.Grammar(lark=f"start: {start}\ncall: %json {json.dumps(schema)}\n")


def _object(name: str, tools: Tools, wrapper: Wrapper) -> dict[str, Any]:
    # With a separate $id, since their references start at their own root.
    address = {"$id": f"tool:{quote(name)}"}
    parameters = {"type": "object"} | address | make_exact(tools.get(name, {}), name, compiles)
    return {
        "type": "object",
        "properties": {"name": {"const": name}, wrapper.arguments_key: parameters},
        "required": ["name", wrapper.arguments_key],
        "additionalProperties": False,
    }


def _spell(text: str, control_names: Mapping[str, int]) -> str:
    """Return a fixed text in Lark, with control tokens written as tokens."""
    for name, token in control_names.items():
        before, found, after = text.partition(name)
        if found:
            parts = (_spell(before, {}), f"<[{token}]>", _spell(after, {}))
            return " ".join(part for part in parts if part)
    return json.dumps(text) if text else ""
