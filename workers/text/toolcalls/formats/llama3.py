"""Calls of Llama 3 models: bare JSON objects; they stream.

    {"name": "get_weather", "parameters": {"city": "Paris"}}

The whole answer is one call, or several separated by `;` or new lines; `<|python_tag|>` may
precede it. Without that tag the text is held back until its keys show whether it is a call.
Source: the chat templates and prompt format of Llama 3.1, 3.2 and 3.3.
"""

from __future__ import annotations

from workers.text.toolcalls.format import Format, Wrapper
from workers.text.toolcalls.json_block import JsonBlockParser

_OPENING = "<|python_tag|>"


def _detect(template: str) -> bool:
    return _OPENING in template or ("<|start_header_id|>" in template and "tools" in template)


FORMAT = Format(
    name="llama3",
    markers=(_OPENING,),
    detect=_detect,
    parser=lambda _: JsonBlockParser(_OPENING, "", bare=True),
    is_bare=True,
    wrapper=Wrapper(_OPENING, "", "parameters"),
)
