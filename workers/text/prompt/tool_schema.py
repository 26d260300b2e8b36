"""Completes tool declarations for templates that need what clients may leave out.

Owns the defaults. Applied only after a template has refused the declarations as they were sent.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def complete_tools(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the tools with a description, and a schema whose members have type and description."""
    return [{"type": "function", "function": _complete(tool["function"])} for tool in tools]


def _complete(function: Mapping[str, Any]) -> dict[str, Any]:
    given = function.get("parameters")
    parameters = _complete_schema(given if isinstance(given, dict) else {})
    parameters.setdefault("properties", {})
    parameters.setdefault("required", [])
    described = {"description": function.get("description") or "", "parameters": parameters}
    return dict(function) | described


def _complete_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without null members, with a type in one word and a description."""
    whole = {key: value for key, value in schema.items() if value is not None}
    kind = whole.get("type")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), None)
    if not isinstance(kind, str):
        kind = "object" if "properties" in whole or not whole else "string"
    whole["type"] = kind
    whole.setdefault("description", "")
    properties = whole.get("properties")
    if isinstance(properties, dict):
        whole["properties"] = {name: _member(value) for name, value in properties.items()}
    if kind == "array" or isinstance(whole.get("items"), dict):
        whole["items"] = _member(whole.get("items"))
    return whole


def _member(schema: Any) -> dict[str, Any]:
    """Return the completed schema of a member; anything that is no object allows any text."""
    return _complete_schema(schema if isinstance(schema, dict) and schema else {"type": "string"})
