"""Calls of Mistral models that write them as one JSON list; they stream.

    [TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris"}, "id": "a1b2c3d4e"}]

The list ends the block; only the end of the turn follows it.
Source: the chat templates of Mistral 7B Instruct v0.3 and Mistral Nemo.
"""

from __future__ import annotations

from workers.text.toolcalls.format import Format, Wrapper
from workers.text.toolcalls.json_block import JsonBlockParser

_OPENING = "[TOOL_CALLS]"

FORMAT = Format(
    name="mistral_nemo",
    markers=(_OPENING,),
    detect=lambda template: _OPENING in template and "[ARGS]" not in template,
    parser=lambda _: JsonBlockParser(_OPENING, ""),
    wrapper=Wrapper(_OPENING, "", "arguments", is_list=True),
)
