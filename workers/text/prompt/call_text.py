"""Writes a call as text, for conversations whose chat template does not show calls.

Owns one spelling per family: that of its grammar, else one that its parser reads. Arguments may be
any text, since a history contains what a model wrote. Pure.
"""

from __future__ import annotations

import json

from workers.text.toolcalls.format import Format, Wrapper
from workers.text.toolcalls.reader.json_text import to_json

# Families whose calls no grammar forces, and that read JSON objects between these texts.
_WRAPPERS = {
    "granite": Wrapper("<|tool_call|>", "", "arguments", is_list=True),
    "mistral": Wrapper("[TOOL_CALLS]", "", "arguments", is_list=True),
    "deepseek": Wrapper("<tool_call>\n", "\n</tool_call>", "arguments"),
}
_PLAIN = Wrapper("", "", "arguments")


def write_call(call_format: Format, name: str, arguments: str) -> str:
    """Return a call as text.

    Args:
        arguments: JSON text, or what the model wrote instead.
    """
    if call_format.name == "pythonic":
        return _write_python(name, arguments)
    if call_format.name == "functionary32":
        return f">>>{name}\n{arguments or '{}'}"
    wrapper = call_format.wrapper or _WRAPPERS.get(call_format.name, _PLAIN)
    call = f'{{"name": {to_json(name)}, "{wrapper.arguments_key}": {arguments or "{}"}}}'
    return f"{wrapper.opening}{f'[{call}]' if wrapper.is_list else call}{wrapper.closing}"


def _write_python(name: str, arguments: str) -> str:
    """Return a call as LFM2 writes it, with JSON literals."""
    try:
        members = (json.loads(arguments or "{}") or {}).items()
    except (ValueError, AttributeError):
        return f"<|tool_call_start|>[{name}({arguments})]<|tool_call_end|>"
    named = ", ".join(f"{key}={to_json(value)}" for key, value in members)
    return f"<|tool_call_start|>[{name}({named})]<|tool_call_end|>"
