"""Calls of Hermes and Qwen models: JSON objects between tags; they stream.

    <tool_call>
    {"name": "get_weather", "arguments": {"city": "Paris"}}
    </tool_call>

Each of several calls has its own block; a list of objects in one block is accepted too.
Source: the function-calling format of Hermes 2 Pro, which Qwen2.5's and Qwen3's templates render.
"""

from __future__ import annotations

from workers.text.toolcalls.format import Format, Wrapper
from workers.text.toolcalls.json_block import JsonBlockParser

_OPENING = "<tool_call>"
_CLOSING = "</tool_call>"


def _detect(template: str) -> bool:
    # Other families put XML between the same tags.
    return _OPENING in template and not any(tag in template for tag in ("<function=", "<arg_key>"))


FORMAT = Format(
    name="hermes",
    markers=(_OPENING, _CLOSING),
    detect=_detect,
    parser=lambda _: JsonBlockParser(_OPENING, _CLOSING),
    wrapper=Wrapper(f"{_OPENING}\n", f"\n{_CLOSING}", "arguments"),
)
