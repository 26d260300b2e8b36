"""Calls as bare JSON objects, for templates that show tools in no known format; they stream.

    {"name": "get_weather", "arguments": {"city": "Paris"}}

The whole answer is the call, a list of calls, or several separated by `;` or new lines. The text
is held back until its keys show whether it is a call. Hermes' tags, which many models write
unasked, announce calls anywhere.
Source: the JSON that such templates commonly ask for in their instructions.
"""

from __future__ import annotations

import re

from workers.text.toolcalls.format import Format, Wrapper
from workers.text.toolcalls.formats import hermes
from workers.text.toolcalls.json_block import JsonBlockParser

# The variable in an expression or a statement, not the word in plain text.
_TOOLS = re.compile(r"\{[{%](?:(?![}%]\}).)*\btools\b", re.DOTALL)

FORMAT = Format(
    name="generic_json",
    markers=hermes.FORMAT.markers,
    detect=lambda template: _TOOLS.search(template) is not None,
    parser=lambda _: JsonBlockParser(*hermes.FORMAT.markers, bare=True),
    is_bare=True,
    wrapper=Wrapper("", "", "arguments"),
)
