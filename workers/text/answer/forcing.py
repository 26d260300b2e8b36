"""The grammars of answers that must be tool calls, or may be instead of following a schema.

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
from workers.text.toolcalls.format import Format, Tools, Wrapper

# Without a limit, a model that repeats calls would go on to its token limit.
_MAX_CALLS = 8
# Any text, with the delimiters that are control tokens.
_REST = "rest: (TEXT{})*\nTEXT: /(.|\\n)+/\n"


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
    start, call = _write_calls(wrapper, tools, named, control_names, lone=lone)
    return pb.Grammar(lark=f"start: {start}\n{call}")


def offer(
    call_format: Format,
    tools: Tools,
    schema: str,
    control_names: Mapping[str, int],
    *,
    lone: bool = False,
) -> pb.Grammar:
    """Return the grammar of calls of any function, or else an answer that follows a schema.

    Of formats whose calls are not JSON objects, only the text that begins a call is enforced.

    Args:
        schema: JSON text, exact and with the engine's options.
        lone, control_names: as for `force`.

    Raises:
        InexactError: a function's parameters can't be enforced exactly.
    """
    wrapper = call_format.wrapper
    if wrapper is None:
        starts = [f"{_spell(text, control_names)} rest" for text in call_format.openings]
        marks = (control_names[name] for name in call_format.markers if name in control_names)
        rule = _REST.format("".join(f" | <[{token}]>" for token in marks))
    else:
        start, rule = _write_calls(wrapper, tools, None, control_names, lone=lone)
        starts = [start, "call"] if call_format.is_bare and wrapper.opening else [start]
    choices = " | ".join(("answer", *starts))
    return pb.Grammar(lark=f"start: {choices}\nanswer: %json {schema}\n{rule}")


def _write_calls(
    wrapper: Wrapper,
    tools: Tools,
    named: str | None,
    control_names: Mapping[str, int],
    *,
    lone: bool,
) -> tuple[str, str]:
    """Return the expression of the calls, and the rule of the object it refers to."""
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
    return start, f"call: %json {json.dumps(schema)}\n"


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
